package hub

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/catalog"
	"mcp-funnel/core/handshake"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
	"mcp-funnel/core/upstream"
)

// codeNotFound is what MCP 2025-11-25 answers for an unknown resource.
const codeNotFound = -32002

// request answers one request of the client, or sends it on its way.
func (s *session) request(ctx context.Context, m jsonrpc.Message) {
	id := m.ID.Of(m.Raw)
	switch method := m.MethodName(); mcp.MCPMethod(method) {
	case mcp.MethodToolsCall:
		s.call(ctx, m)
	case mcp.MethodToolsList:
		if !s.holdUntilReady(ctx, m, func() { s.list(id) }) {
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
	version := handshake.Version(m)

	s.mu.Lock()
	s.client, s.version = client, version
	s.budget = catalog.Budget(client.Name, s.peer.Registered, s.hub.deps.NameLength())
	s.mu.Unlock()
	s.hub.deps.Board.SetSession(s.status())
	s.hub.deps.Events.Publish(status.Event{
		Name: status.EventSessionAttached, Session: s.id, Client: &client, PID: s.peer.PID,
	})
	s.tellResume() // before the answer: a bridge that resumes knows then that we do
	s.send(jsonrpc.NewResult(m.ID.Of(m.Raw), handshake.Result(m, s.hub.deps.Version, "")))

	// From now on, and not before the answer, it may be notified.
	s.mu.Lock()
	s.greeted = true
	if s.resumed.Tools == "" {
		s.resumed.Tools = s.hub.Catalog().View(s.budget).Hash
	}
	s.mu.Unlock()
	select {
	case <-s.hub.deps.Ready: // else the lists are not complete yet, which will be told
		s.listsMayDiffer()
	default:
	}
}

// holdUntilReady keeps a request while the servers are in their very first start, does
// work then unless it was cancelled, and reports whether it keeps it: some clients
// never ask again, and one that was attached to another app before knows tools before
// this one.
func (s *session) holdUntilReady(ctx context.Context, m jsonrpc.Message, work func()) bool {
	select {
	case <-s.hub.deps.Ready:
		return false
	default:
	}
	held := &upstream.Request{Message: m}
	if !s.takeOff(m.ID.Of(m.Raw), &flight{request: held, server: nowhere{}}) {
		return false
	}
	s.work.Go(func() {
		select {
		case <-s.hub.deps.Ready:
			if s.land(held) {
				work()
			}
		case <-ctx.Done():
		}
	})
	return true
}

// nowhere is the server of a request that is held.
type nowhere struct{}

func (nowhere) Forward(*upstream.Request)             {}
func (nowhere) Recall(*upstream.Request) bool         { return true }
func (nowhere) Cancel(*upstream.Request, []byte) bool { return true }
