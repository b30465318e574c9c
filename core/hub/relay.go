package hub

import (
	"context"
	"fmt"

	"mcp-funnel/core/catalog"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/upstream"
)

// call sends a tools/call on its way.
func (s *session) call(ctx context.Context, m jsonrpc.Message) {
	at, _ := jsonrpc.Lookup(m.Raw, m.Params, "name")
	name, ok := jsonrpc.Unquote(at.Of(m.Raw))
	if !ok {
		s.refuse(m.ID.Of(m.Raw), jsonrpc.CodeInvalidParams, "tools/call without params.name, a string")
		return
	}
	route, ok := s.view().Tool(name)
	if !ok {
		if s.holdUntilReady(ctx, m, func() { s.call(ctx, m) }) {
			return
		}
		s.refuse(m.ID.Of(m.Raw), jsonrpc.CodeInvalidParams, fmt.Sprintf("there is no tool %q; tools/list has those there are", name))
		return
	}
	s.calls.Add(1)
	s.forward(m, route, at, name, nil)
}

// getPrompt sends a prompts/get on its way.
func (s *session) getPrompt(ctx context.Context, m jsonrpc.Message) {
	at, _ := jsonrpc.Lookup(m.Raw, m.Params, "name")
	name, ok := jsonrpc.Unquote(at.Of(m.Raw))
	if !ok {
		s.refuse(m.ID.Of(m.Raw), jsonrpc.CodeInvalidParams, "prompts/get without params.name, a string")
		return
	}
	if route, ok := s.view().Prompt(name); ok {
		s.forward(m, route, at, name, nil)
		return
	}
	if !s.holdUntilReady(ctx, m, func() { s.getPrompt(ctx, m) }) {
		s.refuse(m.ID.Of(m.Raw), jsonrpc.CodeInvalidParams, fmt.Sprintf("there is no prompt %q; prompts/list has those there are", name))
	}
}

// toResource sends a request about a resource on its way to the server that has it.
func (s *session) toResource(ctx context.Context, m jsonrpc.Message, landed func(catalog.Route) func(ok bool)) {
	at, _ := jsonrpc.Lookup(m.Raw, m.Params, "uri")
	uri, ok := jsonrpc.Unquote(at.Of(m.Raw))
	if !ok {
		s.refuse(m.ID.Of(m.Raw), jsonrpc.CodeInvalidParams, m.MethodName()+" without params.uri, a string")
		return
	}
	route, ok := s.view().Resource(uri)
	if !ok {
		if s.holdUntilReady(ctx, m, func() { s.toResource(ctx, m, landed) }) {
			return
		}
		data := append(append([]byte(`{"uri":`), jsonrpc.Quote(uri)...), '}')
		s.send(jsonrpc.NewError(m.ID.Of(m.Raw), &jsonrpc.Error{
			Code: codeNotFound, Message: fmt.Sprintf("no server is known to have the resource %q", uri), Data: data,
		}))
		return
	}
	var done func(bool)
	if landed != nil {
		done = landed(route)
	}
	s.forward(m, route, at, uri, done)
}

// complete sends a completion/complete on its way: it is about an argument of a prompt,
// or of a resource template.
func (s *session) complete(ctx context.Context, m jsonrpc.Message) {
	var route catalog.Route
	var found bool
	at, named := jsonrpc.Lookup(m.Raw, m.Params, "ref", "name")
	if !named {
		at, _ = jsonrpc.Lookup(m.Raw, m.Params, "ref", "uri")
	}
	name, ok := jsonrpc.Unquote(at.Of(m.Raw))
	switch {
	case !ok:
		s.refuse(m.ID.Of(m.Raw), jsonrpc.CodeInvalidParams, "completion/complete without a name or uri in params.ref")
		return
	case named:
		route, found = s.view().Prompt(name)
	default:
		route, found = s.view().Template(name)
	}
	if found {
		s.forward(m, route, at, name, nil)
		return
	}
	if !s.holdUntilReady(ctx, m, func() { s.complete(ctx, m) }) {
		s.refuse(m.ID.Of(m.Raw), jsonrpc.CodeInvalidParams, fmt.Sprintf("there is no prompt or resource template %q to complete", name))
	}
}

// vendor sends on a request that is not known here, where there is no doubt for whom it
// is: there is but one server. server/discover, with which newer clients look for the
// wire of 2026, ends here: refused at once, they go on with initialize.
func (s *session) vendor(m jsonrpc.Message) {
	servers := s.hub.deps.Servers()
	if method := m.MethodName(); len(servers) != 1 || method == "server/discover" {
		s.refuse(m.ID.Of(m.Raw), jsonrpc.CodeMethodNotFound, fmt.Sprintf("method %q is not known here", method))
		return
	}
	s.take(m, servers[0], &upstream.Request{Message: m, Label: m.MethodName(), Caller: s, From: s}, nil)
}

// forward sends m to where route leads, with the server's own name at the place of the
// one that the client used. landed is told how it ended.
func (s *session) forward(m jsonrpc.Message, route catalog.Route, at jsonrpc.Span, label string, landed func(ok bool)) {
	server, ok := s.hub.deps.Lookup(route.Server)
	if !ok {
		s.refuse(m.ID.Of(m.Raw), jsonrpc.CodeInvalidParams, fmt.Sprintf("server %q of %q was taken out of the config", route.Server, label))
		return
	}
	s.take(m, server, &upstream.Request{Message: m, Name: route.Quoted, NameAt: at, Label: label, Caller: s, From: s}, landed)
}

// take notes the request and gives it to the server.
func (s *session) take(m jsonrpc.Message, server Server, r *upstream.Request, landed func(ok bool)) {
	if !s.takeOff(m.ID.Of(m.Raw), &flight{request: r, server: server, landed: landed}) {
		s.refuse(m.ID.Of(m.Raw), jsonrpc.CodeInvalidRequest, "another request with this id is still running")
		return
	}
	server.Forward(r)
}

// isResult reports whether a reply is no error.
func isResult(reply []byte) bool {
	m, err := jsonrpc.Parse(reply)
	return err == nil && m.Result.Present()
}
