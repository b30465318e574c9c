package hub

import (
	"context"
	"fmt"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/catalog"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

// capabilities is what the funnel says it can do: always the same, since what the
// servers behind it can do changes while the session lasts.
const capabilities = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},` +
	`"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{}}`

// codeNotFound is what MCP 2025-11-25 answers for an unknown resource.
const codeNotFound = -32002

// request answers one request of the client, or sends it on its way.
func (s *session) request(ctx context.Context, m jsonrpc.Message) {
	id := m.ID.Of(m.Raw)
	switch method := m.MethodName(); mcp.MCPMethod(method) {
	case mcp.MethodToolsCall:
		s.call(ctx, m)
	case mcp.MethodToolsList:
		if !s.whenReady(ctx, func() { s.list(id) }) {
			s.list(id)
		}
	case mcp.MethodInitialize:
		s.initialize(m)
	case mcp.MethodPing, mcp.MethodSetLogLevel:
		s.send(jsonrpc.NewResult(id, []byte("{}")))
	case mcp.MethodPromptsList:
		s.send(jsonrpc.NewResult(id, []byte(`{"prompts":[]}`)))
	case mcp.MethodResourcesList:
		s.send(jsonrpc.NewResult(id, []byte(`{"resources":[]}`)))
	case mcp.MethodResourcesTemplatesList:
		s.send(jsonrpc.NewResult(id, []byte(`{"resourceTemplates":[]}`)))
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		s.refuse(id, codeNotFound, "there is no such resource")
	case mcp.MethodPromptsGet:
		s.refuse(id, jsonrpc.CodeInvalidParams, "there is no such prompt")
	case mcp.MethodCompletionComplete:
		s.refuse(id, jsonrpc.CodeInvalidParams, "there is no such prompt or resource to complete")
	default:
		// server/discover, with which newer clients look for the 2026 wire, ends
		// here too: answered at once, they go on with initialize.
		s.refuse(id, jsonrpc.CodeMethodNotFound, fmt.Sprintf("method %q is not known here", method))
	}
}

// initialize answers the handshake. It never waits for a server.
func (s *session) initialize(m jsonrpc.Message) {
	text := func(path ...string) string {
		span, _ := jsonrpc.Lookup(m.Raw, m.Params, path...)
		value, _ := jsonrpc.Unquote(span.Of(m.Raw))
		return value
	}
	client := status.Client{Name: text("clientInfo", "name"), Version: text("clientInfo", "version")}
	version := negotiate(text("protocolVersion"))

	s.mu.Lock()
	s.client, s.version, s.greeted = client, version, true
	s.budget = catalog.Budget(client.Name, s.peer.Registered, s.hub.deps.NameLength())
	s.mu.Unlock()
	known := s.view().List
	s.mu.Lock()
	s.known = known
	s.mu.Unlock()

	s.hub.deps.Board.SetSession(s.status())
	s.hub.deps.Events.Publish(status.Event{
		Name: status.EventSessionAttached, Session: s.id, Client: &client, PID: s.peer.PID,
	})
	s.send(jsonrpc.NewResult(m.ID.Of(m.Raw), []byte(
		`{"protocolVersion":`+string(jsonrpc.Quote(version))+`,"capabilities":`+capabilities+
			`,"serverInfo":{"name":"mcp-funnel","title":"MCP Funnel","version":`+string(jsonrpc.Quote(s.hub.deps.Version))+`}}`)))
}

// negotiate picks the protocol version for a client (MCP lifecycle, "Version
// negotiation"): its own where we know it, else our newest with a handshake.
func negotiate(wanted string) string {
	if slices.Contains(mcp.LegacyProtocolVersions(), wanted) {
		return wanted
	}
	return mcp.LATEST_LEGACY_PROTOCOL_VERSION
}

// whenReady does work a little later while the servers are in their very first
// start, and reports whether it will: some clients never ask again.
func (s *session) whenReady(ctx context.Context, work func()) bool {
	select {
	case <-s.hub.deps.Ready:
		return false
	default:
	}
	s.work.Go(func() {
		select {
		case <-s.hub.deps.Ready:
			work()
		case <-ctx.Done():
		}
	})
	return true
}
