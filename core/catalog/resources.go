package catalog

import (
	"net/url"
	"regexp"
	"strings"

	"mcp-funnel/core/jsonrpc"
)

// ownScheme begins the URIs by which clients know resources whose own URI another
// server has as well: mcp-funnel://SERVER/URI.
const ownScheme = "mcp-funnel://"

// resources are those of all servers. URIs are unchanged, but for those that an
// earlier server has too.
type resources struct {
	list, templateList List
	// routes by the URI that clients know.
	routes map[string]Route
	// templates in the order of their servers, and by the text that clients know.
	templates []template
	byText    map[string]Route
	// servers are those that have resources or templates.
	servers []string
}

// template is a URI template (RFC 6570) and where it leads.
type template struct {
	server  string
	pattern Pattern
	// literal is how many characters of it are no variables.
	literal int
}

func newResources(sources []Source) *resources {
	r := &resources{routes: make(map[string]Route), byText: make(map[string]Route)}
	list, templates := newLister("resources"), newLister("resourceTemplates")
	for _, s := range sources {
		if len(s.Resources)+len(s.Templates) > 0 {
			r.servers = append(r.servers, s.Server)
		}
		for _, raw := range s.Resources {
			raw, at, uri := uriOf(raw, "uri")
			if uri == "" {
				continue
			}
			route := Route{Server: s.Server, Name: uri, Quoted: at.Of(raw)}
			exposed := uri
			if other, taken := r.routes[exposed]; taken {
				if other.Server == s.Server {
					continue
				}
				exposed = toldApart(s.Server, uri)
			}
			r.routes[exposed] = route
			list.add(raw, changed(at, exposed != uri), exposed)
		}
		for _, raw := range s.Templates {
			raw, at, uri := uriOf(raw, "uriTemplate")
			if uri == "" {
				continue
			}
			exposed := uri
			if _, taken := r.byText[uri]; taken {
				exposed = toldApart(s.Server, uri)
			}
			r.byText[exposed] = Route{Server: s.Server, Name: uri, Quoted: at.Of(raw)}
			r.templates = append(r.templates, newTemplate(s.Server, uri))
			templates.add(raw, changed(at, exposed != uri), exposed)
		}
	}
	r.list, r.templateList = list.list(), templates.list()
	return r
}

// uriOf is the element without members that are null, and its URI.
func uriOf(raw []byte, member string) ([]byte, jsonrpc.Span, string) {
	raw = withoutNulls(raw)
	at, _ := jsonrpc.Lookup(raw, jsonrpc.Whole(raw), member)
	uri, _ := jsonrpc.Unquote(at.Of(raw))
	return raw, at, uri
}

// changed is at, or no span where nothing is to be changed.
func changed(at jsonrpc.Span, really bool) jsonrpc.Span {
	if really {
		return at
	}
	return jsonrpc.Span{}
}

func toldApart(server, uri string) string { return ownScheme + url.PathEscape(server) + "/" + uri }

// variables matches the expressions of a template (RFC 6570, section 2.2).
var variables = regexp.MustCompile(`\{[^{}]*\}`)

func newTemplate(server, text string) template {
	pattern := variables.ReplaceAllString(text, "*")
	return template{server: server, pattern: Pattern(pattern), literal: len(variables.ReplaceAllString(text, ""))}
}

// resolve finds whose resource a URI is: one that is listed; one told apart by its
// server; one that a template yields, the most literal first; one that is like those
// listed; or any, where only one server has resources.
func (r *resources) resolve(uri string) (Route, bool) {
	if route, ok := r.routes[uri]; ok {
		return route, true
	}
	if rest, ok := strings.CutPrefix(uri, ownScheme); ok {
		escaped, own, _ := strings.Cut(rest, "/")
		server, err := url.PathUnescape(escaped)
		return routeTo(server, own), err == nil && r.has(server)
	}
	server, best := "", -1
	for _, t := range r.templates {
		if t.literal > best && t.pattern.Matches(uri) {
			server, best = t.server, t.literal
		}
	}
	if server == "" {
		server = r.alike(uri)
	}
	if server == "" && len(r.servers) == 1 {
		server = r.servers[0]
	}
	return routeTo(server, uri), server != ""
}

// template finds whose template a text is. Clients may also complete a plain URI.
func (r *resources) template(text string) (Route, bool) {
	if route, ok := r.byText[text]; ok {
		return route, true
	}
	return r.resolve(text)
}

func routeTo(server, uri string) Route {
	return Route{Server: server, Name: uri, Quoted: jsonrpc.Quote(uri)}
}

func (r *resources) has(server string) bool {
	for _, s := range r.servers {
		if s == server {
			return true
		}
	}
	return false
}

// alike is the server whose listed resources begin most like uri, with the same scheme
// at least; "" when two are equally like it.
func (r *resources) alike(uri string) string {
	scheme := strings.Index(uri, ":") + 1
	server, best := "", scheme
	for known, route := range r.routes {
		common := 0
		for common < min(len(known), len(uri)) && known[common] == uri[common] {
			common++
		}
		switch {
		case scheme == 0 || common < scheme || common < best:
		case common > best || server == "":
			server, best = route.Server, common
		case route.Server != server:
			return ""
		}
	}
	return server
}
