package hub

import (
	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/catalog"
	"mcp-funnel/core/jsonrpc"
)

// listOf is the list that a method asks for.
func listOf(method string, view *catalog.View) catalog.List {
	switch mcp.MCPMethod(method) {
	case mcp.MethodPromptsList:
		return view.Prompts
	case mcp.MethodResourcesList:
		return view.Resources
	case mcp.MethodResourcesTemplatesList:
		return view.Templates
	}
	return view.Tools
}

// list answers a request for a list, and notes what the client knows now.
func (s *session) list(m jsonrpc.Message) {
	view := s.view()
	cursor, _ := jsonrpc.LookupString(m.Raw, m.Params, "cursor")
	page, ok := listOf(m.MethodName(), view).Page(cursor)
	if !ok {
		s.refuse(m.ID.Of(m.Raw), jsonrpc.CodeInvalidParams, "there is no page at this cursor; begin again without one")
		return
	}
	s.mu.Lock()
	switch mcp.MCPMethod(m.MethodName()) {
	case mcp.MethodToolsList:
		s.resumed.Tools = view.Tools.Hash
	case mcp.MethodPromptsList:
		s.resumed.Prompts = view.Prompts.Hash
	case mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList:
		s.resumed.Resources = resourcesHash(view)
	}
	s.mu.Unlock()
	s.tellResume() // first: when only this arrives, the list is asked for again
	s.send(jsonrpc.NewResult(m.ID.Of(m.Raw), page))
}

// resourcesHash is that of resources and templates: one notification tells of both.
func resourcesHash(view *catalog.View) string { return view.Resources.Hash + view.Templates.Hash }

// knows notes the lists that a client knows of which it has not asked for any yet.
func (r *resume) knows(view *catalog.View) {
	for known, hash := range map[*string]string{
		&r.Tools: view.Tools.Hash, &r.Prompts: view.Prompts.Hash, &r.Resources: resourcesHash(view),
	} {
		if *known == "" {
			*known = hash
		}
	}
}

// listsMayDiffer tells the client which of its lists are out of date, if any are.
func (s *session) listsMayDiffer() {
	view := s.view()
	s.mu.Lock()
	var notices []string
	note := func(known *string, hash, notice string) {
		if s.greeted && *known != hash {
			*known = hash
			notices = append(notices, notice)
		}
	}
	note(&s.resumed.Tools, view.Tools.Hash, string(mcp.MethodNotificationToolsListChanged))
	note(&s.resumed.Prompts, view.Prompts.Hash, string(mcp.MethodNotificationPromptsListChanged))
	note(&s.resumed.Resources, resourcesHash(view), string(mcp.MethodNotificationResourcesListChanged))
	s.mu.Unlock()
	for _, notice := range notices {
		s.send(jsonrpc.NewNotification(notice, nil))
	}
	if len(notices) > 0 {
		s.tellResume()
	}
}
