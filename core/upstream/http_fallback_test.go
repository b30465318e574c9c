package upstream

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-funnel/core/jsonrpc"
)

// eitherOf is an endpoint of which only the url is known.
func eitherOf(t *testing.T, url string) Endpoint {
	t.Helper()
	e := endpointOf(t, url)
	e.FallbackSSE = true
	return e
}

// onStream answers POST on the url of an ssePeer's stream.
func onStream(answer http.HandlerFunc) func(*ssePeer) {
	return func(p *ssePeer) {
		p.elsewhere = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/base/sse" || r.Method != http.MethodPost {
				return false
			}
			answer(w, r)
			return true
		}
	}
}

// notHTTP are answers of servers that do not speak Streamable HTTP.
func notHTTP() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"400": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "sessionid must be provided", 400) },
		"404": func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"405": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 405) },
		"405 as RPC": func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, 405, `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not allowed"}}`)
		},
		"202":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) },
		"empty":    func(_ http.ResponseWriter, _ *http.Request) {},
		"web page": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"stream": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("event: endpoint\ndata: /base/messages/?session_id=other\n\n"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	}
}

func TestC54_FallsBackToTheOlderSSE(t *testing.T) {
	for name, answer := range notHTTP() {
		t.Run(name, func(t *testing.T) {
			peer := newSSEPeer(t, onStream(answer))
			l, shake := linkedTo(t, eitherOf(t, peer.sse()))
			if shake.version != "2024-11-05" {
				t.Errorf("the handshake brought %+v", shake)
			}
			caller := newInbox()
			if err := l.forward(request(t, callX, caller)); err != nil {
				t.Fatal(err)
			}
			if got := caller.wait(t); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
				t.Errorf("the caller got %s", got)
			}
			var verbs []string
			for _, seen := range peer.requests("") {
				verbs = append(verbs, seen.verb+" "+seen.method)
			}
			want := []string{"POST initialize", "GET ", "POST initialize", "POST notifications/initialized", "POST tools/call"}
			if !slices.Equal(verbs, want) {
				t.Errorf("the peer saw %q, want %q", verbs, want)
			}
			close(peer.hangUp)
			if err := awaitEnd(t, l.transport); !strings.HasSuffix(err.Error(), "ended its event stream") {
				t.Errorf("the connection ended with %q", err)
			}
		})
	}
}

func TestC54_ExplicitTypeGetsAHint(t *testing.T) {
	for name, answer := range notHTTP() {
		t.Run(name, func(t *testing.T) {
			peer := newSSEPeer(t, onStream(answer))
			err := handshakeError(t, endpointOf(t, peer.sse()))
			if !strings.Contains(err.Error(), `if the server speaks the older HTTP with SSE, its type in the config is "sse"`) {
				t.Errorf("the error is %q", err)
			}
			if got := len(peer.requests("")); got != 1 {
				t.Errorf("%d requests, want 1", got)
			}
		})
	}
}

func TestC54_ServersOfOtherLibraries(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *sdkPeer{
		"mcp-go SSE": func(t *testing.T) *sdkPeer { return mcpGoSSEPeer(t) },
		"go-sdk SSE": goSDKSSEPeer,
		"mcp-go HTTP": func(t *testing.T) *sdkPeer {
			return mcpGoPeer(t)
		},
		"go-sdk HTTP": func(t *testing.T) *sdkPeer { return goSDKPeer(t, gosdk.StreamableHTTPOptions{}) },
	} {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			l, _ := linkedTo(t, eitherOf(t, start(t).url))
			if got := toolsOf(t, l); !strings.Contains(got, "work") {
				t.Errorf("the tools are %q", got)
			}
			_, older := l.transport.(*fallback).inUse().(*eventStream)
			if want := strings.HasSuffix(name, "SSE"); older != want {
				t.Errorf("the older transport is used: %v", older)
			}
		})
	}
}

// What is no reason to try the older transport, and what the errors say when it is
// none either.
func TestC54_NoFallBackWithoutReason(t *testing.T) {
	refuse := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, status, body) }
	}
	for name, test := range map[string]struct {
		post http.HandlerFunc
		gets int
		want string
	}{
		"hang-up":    {func(w http.ResponseWriter, _ *http.Request) { hangUp(w, false) }, 0, "closed the connection without an answer"},
		"401":        {refuse(401, "who are you"), 0, "wants a log-in"},
		"500":        {refuse(500, "bad day"), 0, "HTTP status 500"},
		"503":        {refuse(503, "come back later"), 0, "HTTP status 503"},
		"503 as RPC": {refuse(503, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"busy"}}`), 0, "HTTP status 503"},
		"newer":      {refuse(400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28"]}}}`), 0, "speaks only MCP 2026-07-28"},
		"own":        {refuse(400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"bad params"}}`), 0, "bad params"},
		"neither": {refuse(404, "nothing here"), 1,
			"HTTP status 404 (Not Found): nothing here; nor does it speak the older HTTP with SSE: HOST answered HTTP status 405 (Method Not Allowed): no stream here; is the url in its config the one for MCP?"},
	} {
		t.Run(name, func(t *testing.T) {
			peer := newHTTPPeer(t, func(p *httpPeer) {
				p.first = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool { test.post(w, r); return true }
			})
			err := handshakeError(t, eitherOf(t, peer.URL))
			want := strings.ReplaceAll(test.want, "HOST", strings.TrimPrefix(peer.URL, "http://"))
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %q, want %q", err, want)
			}
			if posts, gets := len(peer.requests("POST")), len(peer.requests("GET")); posts != 1 || gets != test.gets {
				t.Errorf("%d POST and %d GET, want 1 and %d", posts, gets, test.gets)
			}
		})
	}
}

// What the stream says counts where the server is known to be there.
func TestC54_ErrorsOfTheSecondTry(t *testing.T) {
	var auth *AuthError
	var status *statusError
	for name, test := range map[string]struct {
		get  http.HandlerFunc
		fits func(error) bool
	}{
		"401": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who are you", 401) },
			func(err error) bool { return errors.As(err, &auth) && auth.Hint == "who are you" }},
		"503": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "9")
			http.Error(w, "busy", 503)
		},
			func(err error) bool { return errors.As(err, &status) && status.retryAfter.Seconds() == 9 }},
		"hang-up": {func(w http.ResponseWriter, _ *http.Request) { hangUp(w, false) }, endsConnection},
		"web page": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
			func(err error) bool { return errors.As(err, &status) && status.status == 405 }},
		"other origin": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("event: endpoint\ndata: http://other.invalid/\n\n"))
		}, func(err error) bool {
			return strings.Contains(err.Error(), "wants messages sent to http://other.invalid:80,")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			peer := newSSEPeer(t, func(p *ssePeer) {
				p.get = func(w http.ResponseWriter, r *http.Request) bool { test.get(w, r); return true }
			})
			if err := handshakeError(t, eitherOf(t, peer.sse())); !test.fits(err) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestC54_RefusedConnectionIsOneTry(t *testing.T) {
	noLeak(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	e := eitherOf(t, "http://"+address+"/mcp")
	counting := &countingTripper{next: e.Client.Transport}
	e.Client.Transport = counting
	if err := handshakeError(t, e); !dialFailed(err) {
		t.Errorf("the error is %v", err)
	}
	if got := counting.count.Load(); got != 1 {
		t.Errorf("%d requests, want 1", got)
	}
}

func TestFallbackCloses(t *testing.T) {
	t.Run("before the start", func(t *testing.T) {
		noLeak(t)
		transport, err := openHTTP(t.Context(), eitherOf(t, "http://127.0.0.1:1/"))
		if err != nil {
			t.Fatal(err)
		}
		transport.Close()
		transport.Start(newTestSink())
		if err := awaitEnd(t, transport); !errors.Is(err, errStopped) {
			t.Errorf("the connection ended with %v", err)
		}
	})
	t.Run("during the change", func(t *testing.T) {
		var asked atomic.Bool
		peer := newSSEPeer(t, func(p *ssePeer) {
			p.get = func(_ http.ResponseWriter, r *http.Request) bool {
				asked.Store(true)
				<-r.Context().Done()
				return true
			}
		})
		transport, _ := openPeer(t, eitherOf(t, peer.sse()))
		sendLine(t, transport, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
		peer.await(t, "GET", func(s httpSeen) bool { return s.verb == http.MethodGet && asked.Load() })
		transport.Close()
		if err := awaitEnd(t, transport); !errors.Is(err, errStopped) {
			t.Errorf("the connection ended with %v", err)
		}
		if transport.PID() != 0 || transport.StderrTail() != "" || transport.Unsent(0) || transport.Mask("x") != "x" {
			t.Error("a server over HTTP has no process")
		}
	})
	t.Run("at once", func(t *testing.T) { // whatever the change has come to
		for range 50 {
			peer := newSSEPeer(t, nil)
			transport, _ := openPeer(t, eitherOf(t, peer.sse()))
			sendLine(t, transport, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
			peer.await(t, "POST", func(s httpSeen) bool { return s.method == string(mcp.MethodInitialize) })
			transport.Close()
			awaitEnd(t, transport)
			peer.Close()
		}
	})
}
