package upstream

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/server"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func mcpGoSSEPeer(t *testing.T, options ...server.SSEOption) *sdkPeer {
	p := newSDKPeer()
	serveSDK(t, p, func() http.Handler {
		s := mcpGoServer(p)
		return server.NewSSEServer(s, append(options, server.WithKeepAliveInterval(10*time.Millisecond))...)
	})
	p.url = strings.TrimSuffix(p.url, "/mcp") + "/sse"
	return p
}

func goSDKSSEPeer(t *testing.T) *sdkPeer {
	p := newSDKPeer()
	serveSDK(t, p, func() http.Handler {
		s := goSDKServer(t, p)
		s.AddTool(&gosdk.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(ctx context.Context, r *gosdk.CallToolRequest) (*gosdk.CallToolResult, error) {
				said, err := r.Session.Elicit(ctx, &gosdk.ElicitParams{Message: "sure?"})
				if err != nil {
					return nil, err
				}
				return &gosdk.CallToolResult{Content: []gosdk.Content{&gosdk.TextContent{Text: said.Action}}}, nil
			})
		return gosdk.NewSSEHandler(func(*http.Request) *gosdk.Server { return s }, nil)
	})
	return p
}

func eachSSESDK(t *testing.T, test func(*testing.T, *sdkPeer)) {
	for name, start := range map[string]func(*testing.T) *sdkPeer{
		"mcp-go":          func(t *testing.T) *sdkPeer { return mcpGoSSEPeer(t) },
		"mcp-go, no host": func(t *testing.T) *sdkPeer { return mcpGoSSEPeer(t, server.WithUseFullURLForMessageEndpoint(false)) },
		"go-sdk":          goSDKSSEPeer,
	} {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			test(t, start(t))
		})
	}
}

func TestC53_ServersOfOtherLibraries(t *testing.T) {
	eachSSESDK(t, func(t *testing.T, p *sdkPeer) {
		l, shake := linkedBy(t, openSSE, endpointOf(t, p.url))
		if !shake.has.has(Tools) {
			t.Errorf("the handshake brought %+v", shake)
		}
		if got := toolsOf(t, l); !strings.Contains(got, "wait") || !strings.Contains(got, "work") {
			t.Errorf("the tools are %q", got)
		}
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
		p.addTool()
		select {
		case <-l.listsChanged:
		case <-time.After(peerWait):
			t.Error("the change was not told")
		}
	})
}

func TestSSECancelReachesTheTool(t *testing.T) {
	eachSSESDK(t, func(t *testing.T, p *sdkPeer) {
		l, _ := linkedBy(t, openSSE, endpointOf(t, p.url))
		r := request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{}}}`, newInbox())
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

func TestSSERequestOfAnotherLibrarysServerIsAnswered(t *testing.T) {
	noLeak(t)
	l, _ := linkedBy(t, openSSE, endpointOf(t, goSDKSSEPeer(t).url))
	caller := &sseAsker{newInbox(), 10 * time.Millisecond}
	if err := l.forward(request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}`, caller)); err != nil {
		t.Fatal(err)
	}
	if got := caller.wait(t); !strings.Contains(got, `"text":"accept"`) {
		t.Errorf("the reply is %s", got)
	}
}

// After a restart the address for messages leads nowhere.
func TestC48_RestartedSSEServersOfOtherLibraries(t *testing.T) {
	eachSSESDK(t, func(t *testing.T, p *sdkPeer) {
		l, _ := linkedBy(t, openSSE, endpointOf(t, p.url))
		toolsOf(t, l) // then the handshake is over on the server's side too
		p.restart()
		caller := newInbox()
		if err := l.forward(request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work"}}`, caller)); err != nil {
			t.Fatal(err)
		}
		if got := caller.wait(t); !strings.Contains(got, "forgot the session") {
			t.Errorf("the reply is %s", got)
		}
		if err := awaitEnd(t, l.transport); !unsent(err) {
			t.Errorf("the connection ended with %v", err)
		}
	})
}
