package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
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

// Filter decides which tools clients see. Its elements are [Pattern]s on exposed
// names; where a name was shortened or altered, they may also be written for what it
// would be otherwise.
type Filter struct {
	// Expose lists patterns; nil shows everything, an empty list nothing.
	Expose []string
	// Hide is a firewall: what matches is neither listed nor callable.
	Hide []string
}

// shows reports whether clients that know the tool as exposed see it.
func (f Filter) shows(n naming, exposed string) bool {
	meant := func(pattern string) bool { return n.matches(pattern, exposed) }
	if slices.ContainsFunc(f.Hide, meant) {
		return false
	}
	return f.Expose == nil || slices.ContainsFunc(f.Expose, meant)
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
	naming naming
	// raw is the tool with the repairs made, and at where its name lies in it.
	raw  []byte
	at   jsonrpc.Span
	text string // description, for search
}

// New merges the sources, whose order decides clashes of unprefixed names.
func New(sources []Source, filter Filter) *Catalog {
	c := &Catalog{filter: filter, views: make(map[int]*View)}
	for _, s := range sources {
		c.sources = append(c.sources, source{Source: s, tools: readTools(s)})
	}
	return c
}

// readTools looks at the tools of one server. What has no name is left out, and so
// is the second of two with the same name: nobody could call it.
func readTools(s Source) []tool {
	seen := make(map[string]bool, len(s.Tools))
	tools := make([]tool, 0, len(s.Tools))
	for _, raw := range s.Tools {
		name := text(raw, "name")
		if name == "" || seen[name] {
			continue
		}
		seen[name] = true
		raw = repair(raw)
		at, _ := jsonrpc.Lookup(raw, jsonrpc.Whole(raw), "name")
		tools = append(tools, tool{
			name: name, quoted: at.Of(raw), naming: newNaming(s.Prefix, name),
			raw: raw, at: at, text: text(raw, "description"),
		})
	}
	return tools
}

// text is the member of that name, "" when there is none or it is no string.
func text(object []byte, name string) string {
	span, _ := jsonrpc.Lookup(object, jsonrpc.Whole(object), name)
	value, _ := jsonrpc.Unquote(span.Of(object))
	return value
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
	// Hash tells one list from another, also over the lives of the app.
	Hash string
	// Entries are the tools in the order of List.
	Entries []Entry

	routes map[string]Route
}

// View returns the view for names of at most budget characters, a number that
// [Budget] returned.
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
			name := t.naming.within(budget)
			if _, taken := v.routes[name]; taken || !c.filter.shows(t.naming, name) {
				continue
			}
			v.routes[name] = Route{Server: s.Server, Tool: t.name, Quoted: t.quoted}
			v.Entries = append(v.Entries, Entry{Name: name, Server: s.Server, Tool: t.name, Description: t.text})
			if list.Len() > len(`{"tools":[`) {
				list.WriteByte(',')
			}
			list.Write(t.raw[:t.at.Start])
			list.WriteString(`"` + name + `"`) // of characters that need no escape
			list.Write(t.raw[t.at.End:])
		}
	}
	list.WriteString("]}")
	v.List = list.Bytes()
	sum := sha256.Sum256(v.List)
	v.Hash = hex.EncodeToString(sum[:8])
	return v
}

// Resolve finds where a call by that exposed name goes.
func (v *View) Resolve(name string) (Route, bool) {
	r, ok := v.routes[name]
	return r, ok
}
