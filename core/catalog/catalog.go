package catalog

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"mcp-funnel/core/jsonrpc"
)

// Source is one server's contribution.
type Source struct {
	// Server is its name in the config.
	Server string
	// Prefix goes before the names of its tools and prompts; "" exposes its own.
	Prefix string
	// Tools, Prompts, Resources and Templates are the elements of its lists, as it
	// wrote them.
	Tools, Prompts, Resources, Templates [][]byte
	// Instructions are those for the model, "" for none.
	Instructions string
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
	// Name is the server's own name for it; Quoted the same as a JSON string, as
	// the server wrote it.
	Name   string
	Quoted []byte
}

// Catalog is everything merged, at one moment.
type Catalog struct {
	sources   []source
	filter    Filter
	resources *resources

	mu sync.Mutex
	// views by budget: made when first asked for.
	views map[int]*View
}

// source is a [Source] whose tools and prompts were looked at.
type source struct {
	Source
	tools, prompts []named
}

// named is a tool or a prompt that clients can be shown.
type named struct {
	name   string
	quoted []byte
	naming naming
	// raw is the element, a tool with the repairs made, and at where its name lies
	// in it.
	raw  []byte
	at   jsonrpc.Span
	text string // description, for search
}

// New merges the sources, whose order decides clashes of unprefixed names and of
// URIs.
func New(sources []Source, filter Filter) *Catalog {
	c := &Catalog{filter: filter, resources: newResources(sources), views: make(map[int]*View)}
	for _, s := range sources {
		c.sources = append(c.sources, source{
			Source: s, tools: readNamed(s.Prefix, s.Tools, repair), prompts: readNamed(s.Prefix, s.Prompts, withoutNulls),
		})
	}
	return c
}

// Instructions are those of all servers, each under its server's name; "" when there
// are none.
func (c *Catalog) Instructions() string {
	var text strings.Builder
	for _, s := range c.sources {
		if own := strings.TrimSpace(s.Instructions); own != "" {
			fmt.Fprintf(&text, "# %s\n\n%s\n\n", s.Server, own)
		}
	}
	return strings.TrimSpace(text.String())
}

// readNamed looks at the tools or prompts of one server. What has no name is left
// out, and so is the second of two with the same name: nobody could call it.
func readNamed(prefix string, elements [][]byte, repair func([]byte) []byte) []named {
	seen := make(map[string]bool, len(elements))
	list := make([]named, 0, len(elements))
	for _, raw := range elements {
		name := text(raw, "name")
		if name == "" || seen[name] {
			continue
		}
		seen[name] = true
		raw = repair(raw)
		at, _ := jsonrpc.Lookup(raw, jsonrpc.Whole(raw), "name")
		list = append(list, named{
			name: name, quoted: at.Of(raw), naming: newNaming(prefix, name),
			raw: raw, at: at, text: text(raw, "description"),
		})
	}
	return list
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

// View is the catalog for clients with one budget of name length. It is immutable.
type View struct {
	Tools, Prompts, Resources, Templates List
	// Entries are the tools in the order of the list.
	Entries []Entry

	tools, prompts map[string]Route
	resources      *resources
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
	v := &View{
		tools: make(map[string]Route), prompts: make(map[string]Route),
		resources: c.resources, Resources: c.resources.list, Templates: c.resources.templateList,
	}
	tools, prompts := newLister("tools"), newLister("prompts")
	for _, s := range c.sources {
		for _, t := range s.tools {
			name := t.naming.within(budget)
			if _, taken := v.tools[name]; taken || !c.filter.shows(t.naming, name) {
				continue
			}
			v.tools[name] = Route{Server: s.Server, Name: t.name, Quoted: t.quoted}
			v.Entries = append(v.Entries, Entry{Name: name, Server: s.Server, Tool: t.name, Description: t.text})
			tools.add(t.raw, t.at, name)
		}
		for _, p := range s.prompts {
			name := p.naming.within(budget)
			if _, taken := v.prompts[name]; !taken {
				v.prompts[name] = Route{Server: s.Server, Name: p.name, Quoted: p.quoted}
				prompts.add(p.raw, p.at, name)
			}
		}
	}
	v.Tools, v.Prompts = tools.list(), prompts.list()
	return v
}

// Tool finds where a call of the tool with that exposed name goes.
func (v *View) Tool(name string) (Route, bool) {
	r, ok := v.tools[name]
	return r, ok
}

// Prompt finds where the prompt with that exposed name comes from.
func (v *View) Prompt(name string) (Route, bool) {
	r, ok := v.prompts[name]
	return r, ok
}

// Resource finds where the resource with that URI, as clients know it, comes from;
// Name is the server's own URI for it.
func (v *View) Resource(uri string) (Route, bool) { return v.resources.resolve(uri) }

// Template finds where the resource template comes from, as clients know it.
func (v *View) Template(uri string) (Route, bool) { return v.resources.template(uri) }
