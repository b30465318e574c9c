package catalog

import (
	"bytes"
	"sync"

	"mcp-funnel/core/jsonrpc"
)

// Source is one server's contribution.
type Source struct {
	// Server is its name in the config.
	Server string
	// Prefix goes before the names of its tools; "" exposes its own names.
	Prefix string
	// Tools are the elements of its tools/list, as it wrote them.
	Tools [][]byte
}

// Filter decides which tools clients see, by exposed name.
type Filter struct {
	// Expose lists patterns; nil shows everything, an empty list nothing.
	Expose []string
	// Hide is a firewall: what matches is neither listed nor callable.
	Hide []string
}

func (f Filter) shows(name string) bool {
	if anyMatches(f.Hide, name) {
		return false
	}
	return f.Expose == nil || anyMatches(f.Expose, name)
}

// Route says where a call by an exposed name goes.
type Route struct {
	Server string
	// Tool is the server's own name for it; Quoted the same as a JSON string, as
	// the server wrote it.
	Tool   string
	Quoted []byte
}

// Catalog is the merged list at one moment.
type Catalog struct {
	sources []source
	filter  Filter

	mu sync.Mutex
	// views by budget: made when first asked for.
	views map[int]*View
}

// source is a [Source] whose tools were looked at.
type source struct {
	Source
	tools []tool
}

// tool is one tool that clients can be shown.
type tool struct {
	name   string
	quoted []byte
	// raw is the tool with the repairs made, and at where its name lies in it.
	raw  []byte
	at   jsonrpc.Span
	text string // description, for search
}

// New merges the sources, whose order decides clashes of unprefixed names.
func New(sources []Source, filter Filter) *Catalog {
	c := &Catalog{filter: filter, views: make(map[int]*View)}
	for _, s := range sources {
		c.sources = append(c.sources, source{Source: s, tools: readTools(s.Tools)})
	}
	return c
}

// readTools looks at the tools of one server. What has no name is left out, and so
// is the second of two with the same name: nobody could call it.
func readTools(raws [][]byte) []tool {
	seen := make(map[string]bool, len(raws))
	tools := make([]tool, 0, len(raws))
	for _, raw := range raws {
		repaired := repair(raw)
		at, ok := jsonrpc.Lookup(repaired, jsonrpc.Whole(repaired), "name")
		if !ok {
			continue
		}
		name, ok := jsonrpc.Unquote(at.Of(repaired))
		if !ok || name == "" || seen[name] {
			continue
		}
		seen[name] = true
		t := tool{name: name, quoted: at.Of(repaired), raw: repaired, at: at}
		if span, ok := jsonrpc.Lookup(repaired, jsonrpc.Whole(repaired), "description"); ok {
			t.text, _ = jsonrpc.Unquote(span.Of(repaired))
		}
		tools = append(tools, t)
	}
	return tools
}

// Entry is a tool as clients see it, for people.
type Entry struct {
	// Name is the exposed name.
	Name string `json:"name"`
	// Server and Tool say whose it is and what it calls it.
	Server      string `json:"server"`
	Tool        string `json:"tool"`
	Description string `json:"description,omitempty"`
}

// View is the catalog for clients with one budget of name length.
type View struct {
	// List is the result of tools/list: {"tools":[…]}. It must not be changed.
	List []byte
	// Entries are the tools in the order of List.
	Entries []Entry

	routes map[string]Route
}

// View returns the view for names of at most budget characters.
func (c *Catalog) View(budget int) *View {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.views[budget]; ok {
		return v
	}
	v := c.view(budget)
	c.views[budget] = v
	return v
}

func (c *Catalog) view(budget int) *View {
	v := &View{routes: make(map[string]Route)}
	var list bytes.Buffer
	list.WriteString(`{"tools":[`)
	for _, s := range c.sources {
		for _, t := range s.tools {
			name := exposedName(s.Prefix, t.name, budget)
			if _, taken := v.routes[name]; taken || !c.filter.shows(name) {
				continue
			}
			v.routes[name] = Route{Server: s.Server, Tool: t.name, Quoted: t.quoted}
			v.Entries = append(v.Entries, Entry{Name: name, Server: s.Server, Tool: t.name, Description: t.text})
			if list.Len() > len(`{"tools":[`) {
				list.WriteByte(',')
			}
			list.Write(t.raw[:t.at.Start])
			list.Write(jsonrpc.Quote(name))
			list.Write(t.raw[t.at.End:])
		}
	}
	list.WriteString("]}")
	v.List = list.Bytes()
	return v
}

// Resolve finds where a call by that exposed name goes.
func (v *View) Resolve(name string) (Route, bool) {
	r, ok := v.routes[name]
	return r, ok
}
