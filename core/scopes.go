package core

import (
	"strings"

	"mcp-funnel/core/catalog"
)

// catalogFor makes the catalog that a session sees, by its id: in it are the lists of
// the instances that the session uses. "" is one without any.
func (f *Funnel) catalogFor(session string) *catalog.Catalog {
	c := f.Config()
	prefixes := make(map[string]string, len(c.Servers))
	for _, s := range c.Servers {
		prefixes[s.Name] = s.Prefix
	}
	var sources []catalog.Source
	for _, u := range f.supervisor.Upstreams() {
		lists, visible := u.Lists()
		if !visible {
			continue
		}
		if special, _, own := u.ListsFor(session); own {
			lists = special
		}
		sources = append(sources, catalog.Source{
			Server: u.Name(), Prefix: prefixes[u.Name()], Tools: lists.Tools, Prompts: lists.Prompts,
			Resources: lists.Resources, Templates: lists.Templates, Instructions: lists.Instructions,
		})
	}
	return catalog.New(sources, catalog.Filter{Expose: c.ExposeTools, Hide: c.HideTools})
}

// ownCatalogs are the catalogs of the sessions that see other lists than most, by the
// sessions' ids. Sessions that use the same instances share one.
func (f *Funnel) ownCatalogs() map[string]*catalog.Catalog {
	own := make(map[string]*catalog.Catalog)
	shared := make(map[string]*catalog.Catalog)
	servers := f.supervisor.Upstreams()
	for _, session := range f.hub.Sessions() {
		var instances strings.Builder
		for _, u := range servers {
			if _, instance, special := u.ListsFor(session.ID); special {
				instances.WriteString(u.Name() + "\x00" + instance + "\x00")
			}
		}
		key := instances.String()
		if key == "" {
			continue
		}
		if shared[key] == nil {
			shared[key] = f.catalogFor(session.ID)
		}
		own[session.ID] = shared[key]
	}
	return own
}
