package hub

import (
	"context"

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
	switch method := mcp.MCPMethod(m.MethodName()); method {
	case mcp.MethodToolsCall:
		s.call(ctx, m)
	case mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList:
		if !s.holdUntilReady(ctx, m, func() { s.list(m) }) {
			s.list(m)
		}
	case mcp.MethodInitialize:
		s.initialize(m)
	case mcp.MethodPing:
		s.send(jsonrpc.NewResult(id, []byte("{}")))
	case mcp.MethodSetLogLevel:
		s.setLevel(m)
	case mcp.MethodResourcesRead:
		s.toResource(ctx, m, nil)
	case mcp.MethodResourcesSubscribe:
		s.subscribe(ctx, m)
	case mcp.MethodResourcesUnsubscribe:
		s.unsubscribe(ctx, m)
	case mcp.MethodPromptsGet:
		s.getPrompt(ctx, m)
	case mcp.MethodCompletionComplete:
		s.complete(ctx, m)
	default:
		s.vendor(m)
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
	s.can = abilitiesOf(m)
	s.client, s.version = client, version
	s.budget = catalog.Budget(client.Name, s.peer.Registered, s.hub.deps.NameLength())
	s.mu.Unlock()
	s.hub.deps.Board.SetSession(s.status())
	s.hub.deps.Events.Publish(status.Event{
		Name: status.EventSessionAttached, Session: s.id, Client: &client, PID: s.peer.PID,
	})
	s.tellResume() // before the answer: a bridge that resumes knows then that we do
	s.send(jsonrpc.NewResult(m.ID.Of(m.Raw), handshake.Result(m, s.hub.deps.Version, s.hub.Catalog().Instructions())))

	// From now on, and not before the answer, it may be notified.
	s.mu.Lock()
	s.greeted = true
	s.resumed.knows(s.hub.Catalog().View(s.budget))
	s.mu.Unlock()
	s.restore()
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
func (nowhere) Notify(upstream.Caller, []byte)        {}
func (nowhere) SetLogLevel(string)                    {}
func (nowhere) Subscribe(upstream.Session, string)    {}
func (nowhere) Unsubscribe(upstream.Session, string)  {}
func (nowhere) Shares(string, string) bool            { return false }
func (nowhere) Cancel(*upstream.Request, []byte) bool { return true }
