package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// sdkPeer is a server made with somebody else's library, which has two tools.
// "work" returns "done"; asked for progress it tells some, and waits till that has
// arrived. "wait" waits for its cancellation.
type sdkPeer struct {
	url string
	// addTool changes the list of tools.
	addTool func()
	// restart forgets all sessions.
	restart func()
	// cancelled gets a token when "wait" was cancelled.
	cancelled chan struct{}
	// arrived is closed when progress was seen.
	arrived chan struct{}
}

func newSDKPeer() *sdkPeer {
	return &sdkPeer{cancelled: make(chan struct{}, 1), arrived: make(chan struct{})}
}

// swappable is a handler that is replaced when its server restarts.
type swappable struct{ handler atomic.Pointer[http.Handler] }

func (s *swappable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*s.handler.Load()).ServeHTTP(w, r)
}

// serveSDK starts an HTTP server for what build makes, anew at each restart.
func serveSDK(t *testing.T, p *sdkPeer, build func() http.Handler) {
	t.Helper()
	var s swappable
	p.restart = func() {
		h := build()
		s.handler.Store(&h)
	}
	p.restart()
	web := httptest.NewServer(&s)
	t.Cleanup(web.Close)
	p.url = web.URL + "/mcp"
}

func mcpGoPeer(t *testing.T, options ...server.StreamableHTTPOption) *sdkPeer {
	p := newSDKPeer()
	serveSDK(t, p, func() http.Handler {
		return server.NewStreamableHTTPServer(mcpGoServer(p), append(options,
			server.WithStateful(true), server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))...)
	})
	return p
}

func mcpGoServer(p *sdkPeer) *server.MCPServer {
	s := server.NewMCPServer("peer", "1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("work"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if r.Params.Meta != nil {
			params := map[string]any{"progressToken": r.Params.Meta.ProgressToken, "progress": 1}
			if err := server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress", params); err != nil {
				return nil, err
			}
			<-p.arrived
		}
		return mcp.NewToolResultText("done"), nil
	})
	s.AddTool(mcp.NewTool("wait"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		p.cancelled <- struct{}{}
		return nil, ctx.Err()
	})
	p.addTool = func() { s.AddTool(mcp.NewTool("more"), nil) }
	return s
}

func goSDKPeer(t *testing.T, options gosdk.StreamableHTTPOptions) *sdkPeer {
	p := newSDKPeer()
	serveSDK(t, p, func() http.Handler {
		s := goSDKServer(t, p)
		return gosdk.NewStreamableHTTPHandler(func(*http.Request) *gosdk.Server { return s }, &options)
	})
	return p
}

func goSDKServer(t *testing.T, p *sdkPeer) *gosdk.Server {
	s := gosdk.NewServer(&gosdk.Implementation{Name: "peer", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object"}`)
	s.AddTool(&gosdk.Tool{Name: "work", InputSchema: schema}, func(ctx context.Context, r *gosdk.CallToolRequest) (*gosdk.CallToolResult, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			if err := r.Session.NotifyProgress(ctx, &gosdk.ProgressNotificationParams{ProgressToken: token, Progress: 1}); err != nil {
				return nil, err
			}
			<-p.arrived
		}
		return &gosdk.CallToolResult{Content: []gosdk.Content{&gosdk.TextContent{Text: "done"}}}, nil
	})
	s.AddTool(&gosdk.Tool{Name: "wait", InputSchema: schema}, func(ctx context.Context, _ *gosdk.CallToolRequest) (*gosdk.CallToolResult, error) {
		<-ctx.Done()
		p.cancelled <- struct{}{}
		return nil, ctx.Err()
	})
	p.addTool = func() { s.AddTool(&gosdk.Tool{Name: "more", InputSchema: schema}, nil) }
	t.Cleanup(func() {
		for session := range s.Sessions() { // those that a restart left
			_ = session.Close()
		}
	})
	return s
}

// eachSDK runs a test against every kind of peer.
func eachSDK(t *testing.T, test func(*testing.T, *sdkPeer)) {
	for name, start := range map[string]func(*testing.T) *sdkPeer{
		"mcp-go":              func(t *testing.T) *sdkPeer { return mcpGoPeer(t) },
		"go-sdk with streams": func(t *testing.T) *sdkPeer { return goSDKPeer(t, gosdk.StreamableHTTPOptions{}) },
		"go-sdk with bodies":  func(t *testing.T) *sdkPeer { return goSDKPeer(t, gosdk.StreamableHTTPOptions{JSONResponse: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			test(t, start(t))
		})
	}
}

func toolsOf(t *testing.T, l *link) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), peerWait)
	defer cancel()
	tools, err := l.list(ctx, Tools)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools {
		var head struct{ Name string }
		if err := json.Unmarshal(tool, &head); err != nil {
			t.Fatal(err)
		}
		names = append(names, head.Name)
	}
	return strings.Join(names, " ")
}

func TestHTTPServersOfOtherLibraries(t *testing.T) {
	eachSDK(t, func(t *testing.T, p *sdkPeer) {
		l, shake := linkedTo(t, endpointOf(t, p.url))
		if shake.version != "2025-11-25" || !shake.has.has(Tools) {
			t.Errorf("the handshake brought %+v", shake)
		}
		if got := toolsOf(t, l); got != "wait work" && got != "work wait" {
			t.Errorf("the tools are %q", got)
		}
		caller := newInbox()
		err := l.forward(request(t, `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"work","arguments":{}}}`, caller))
		if err != nil {
			t.Fatal(err)
		}
		if got := caller.wait(t); !strings.Contains(got, `"id":"a"`) || !strings.Contains(got, `"text":"done"`) {
			t.Errorf("the reply is %s", got)
		}
	})
}

func TestHTTPProgressIsRelayed(t *testing.T) {
	eachSDK(t, func(t *testing.T, p *sdkPeer) {
		if strings.Contains(t.Name(), "bodies") {
			t.Skip("without streams there is no progress")
		}
		l, _ := linkedTo(t, endpointOf(t, p.url))
		caller := newInbox()
		err := l.forward(request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","arguments":{},"_meta":{"progressToken":"tok"}}}`, caller))
		if err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-caller.progress:
			if !strings.Contains(got, `"progressToken":"tok"`) {
				t.Errorf("the progress is %s", got)
			}
		case <-time.After(peerWait):
			t.Error("there is no progress")
		}
		close(p.arrived)
		if got := caller.wait(t); !strings.Contains(got, `"text":"done"`) {
			t.Errorf("the reply is %s", got)
		}
	})
}

func TestHTTPListChangedComesOnTheListeningStream(t *testing.T) {
	eachSDK(t, func(t *testing.T, p *sdkPeer) {
		l, _ := linkedTo(t, endpointOf(t, p.url))
		// The stream may not be open yet, and nobody tells when it is.
		for deadline := time.Now().Add(peerWait); ; p.addTool() {
			select {
			case <-l.listsChanged:
				if got := toolsOf(t, l); !strings.Contains(got, "more") {
					t.Errorf("the tools are %q", got)
				}
				return
			case <-time.After(50 * time.Millisecond):
			}
			if time.Now().After(deadline) {
				t.Fatal("the change was not told")
			}
		}
	})
}

func TestHTTPCancelReachesTheTool(t *testing.T) {
	eachSDK(t, func(t *testing.T, p *sdkPeer) {
		l, _ := linkedTo(t, endpointOf(t, p.url))
		caller := newInbox()
		r := request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{}}}`, caller)
		if err := l.forward(r); err != nil {
			t.Fatal(err)
		}
		// A cancellation on another connection may be quicker than the call.
		time.Sleep(50 * time.Millisecond)
		if !l.cancel(r, []byte(`{"requestId":1,"reason":"enough"}`)) {
			t.Error("the call was not waiting")
		}
		select {
		case <-p.cancelled:
		case <-time.After(peerWait):
			t.Error("the tool goes on")
		}
		if got := toolsOf(t, l); got == "" {
			t.Error("the connection does not work any more")
		}
	})
}

func TestC48_RestartedServersOfOtherLibraries(t *testing.T) {
	eachSDK(t, func(t *testing.T, p *sdkPeer) {
		e := endpointOf(t, p.url)
		l, _ := linkedTo(t, e)
		toolsOf(t, l) // then the handshake is over on the server's side too
		p.restart()
		caller := newInbox()
		if err := l.forward(request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work"}}`, caller)); err != nil {
			t.Fatal(err)
		}
		if got := caller.wait(t); !strings.Contains(got, "forgot the session (HTTP status 404)") {
			t.Errorf("the reply is %s", got)
		}
		var lost *SessionLostError
		if err := awaitEnd(t, l.transport); !errors.As(err, &lost) {
			t.Errorf("the connection ended with %v", err)
		}
		l.transport.Close()
		again, _ := linkedTo(t, e)
		if got := toolsOf(t, again); got == "" {
			t.Error("after the restart there are no tools")
		}
	})
}

func TestC50_ServersOfOtherLibrariesWithoutStreams(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *sdkPeer{
		"mcp-go": func(t *testing.T) *sdkPeer { return mcpGoPeer(t, server.WithDisableStreaming(true)) },
		"go-sdk": func(t *testing.T) *sdkPeer { return goSDKPeer(t, gosdk.StreamableHTTPOptions{Stateless: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			l, _ := linkedTo(t, endpointOf(t, start(t).url))
			time.Sleep(20 * time.Millisecond) // time to be refused
			if got := toolsOf(t, l); got == "" {
				t.Error("there are no tools")
			}
			if err := l.transport.Err(); err != nil {
				t.Errorf("the connection ended with %v", err)
			}
		})
	}
}
