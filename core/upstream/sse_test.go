package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

func TestC53_RelativeEndpointOfTheOlderSSE(t *testing.T) {
	for name, endpoint := range map[string]string{
		"absolute path": "/base/messages/?session_id=" + sseSecret,
		"relative path": "messages/?session_id=" + sseSecret,
		"dots":          "../base/messages/?session_id=" + sseSecret + "#part",
		"complete":      "HERE/base/messages/?session_id=" + sseSecret,
	} {
		t.Run(name, func(t *testing.T) {
			calls := make(chan jsonrpc.Message, 2)
			peer := newSSEPeer(t, func(p *ssePeer) {
				p.endpoint = endpoint
				p.answer = func(send func(string), m jsonrpc.Message) { // when there are two, the other way round
					if calls <- m; len(calls) == 2 {
						first := <-calls
						send(resultFor(m, `"second"`))
						send(resultFor(first, `"first"`))
					}
				}
			})
			e := endpointOf(t, strings.Replace(peer.sse(), "http://", "http://me:pw@", 1))
			e.Headers = map[string]string{"X-Key": "k"}
			l, shake := linkedBy(t, openSSE, e)
			if shake.version != "2024-11-05" || !shake.has.has(Tools) {
				t.Errorf("the handshake brought %+v", shake)
			}
			callers := []*inbox{newInbox(), newInbox()}
			for i, caller := range callers {
				line := fmt.Sprintf(`{"jsonrpc":"2.0","id":"c%d","method":"tools/call","params":{"name":"x"}}`, i)
				if err := l.forward(request(t, line, caller)); err != nil {
					t.Fatal(err)
				}
				for deadline := time.Now().Add(peerWait); i == 0 && len(calls) == 0; time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatal("the call did not come")
					}
				}
			}
			for i, want := range []string{`"first"`, `"second"`} {
				if got := callers[i].wait(t); got != fmt.Sprintf(`{"jsonrpc":"2.0","id":"c%d","result":%s}`, i, want) {
					t.Errorf("caller %d got %s", i, got)
				}
			}
			for _, seen := range peer.requests("") {
				if key, auth := seen.header.Get("X-Key"), seen.header.Get("Authorization"); key != "k" || auth != "Basic bWU6cHc=" {
					t.Errorf("%s %s came with X-Key %q and Authorization %q", seen.verb, seen.path, key, auth)
				}
				if verb, accept := seen.verb, seen.header.Get("Accept"); verb == http.MethodGet && accept != mediaEvents {
					t.Errorf("the stream is asked for as %q", accept)
				}
			}
			if got := len(peer.requests(http.MethodGet)); got != 1 {
				t.Errorf("%d GET requests", got)
			}
		})
	}
}

func TestC53_EndpointOnAnotherOriginIsRefused(t *testing.T) {
	other := newHTTPPeer(t, nil)
	for name, test := range map[string]struct{ endpoint, want string }{
		"port":      {other.URL + "/m?session_id=canary", "wants messages sent to " + other.URL + ","},
		"scheme":    {"https://127.0.0.1/m?canary", "wants messages sent to https://127.0.0.1:443,"},
		"host":      {"//canary:canary@other.invalid/m", "wants messages sent to http://other.invalid:80,"},
		"no url":    {"http://[canary", "what is no address"},
		"no host":   {"http:canary", "what is no address"},
		"other use": {"mailto:canary", "what is no address"},
	} {
		t.Run(name, func(t *testing.T) {
			peer := newSSEPeer(t, func(p *ssePeer) { p.endpoint = test.endpoint })
			err := handshakeErrorBy(t, openSSE, endpointOf(t, peer.sse()))
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("the error is %q, want %q", err, test.want)
			}
			if got := len(peer.requests(http.MethodPost)); got != 0 {
				t.Errorf("%d messages were posted", got)
			}
		})
	}
	if got := other.requests(""); len(got) > 0 {
		t.Errorf("the other server got %v", got)
	}
}

// FuzzResolveEndpoint holds that messages never go to another origin, and that what
// comes out is an address by itself.
func FuzzResolveEndpoint(f *testing.F) {
	for _, seed := range []string{
		"/messages/?session_id=1", "messages", "?s=1", "http://h:80/m", "https://h/m", "//u:p@x/m", "HTTP://H/m", "http:m", "http://h:/m",
		"\\\\x/m", "/%2f%2fx", "#f", "", " /m ", "http://h\x00x/", "http://h%2ex/", "///x", "/..//x",
	} {
		f.Add(seed)
	}
	stream, err := url.Parse("http://h:80/base/sse?token=t")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, endpoint string) {
		target, err := resolveEndpoint(stream, endpoint)
		if err != nil {
			return
		}
		request, err := http.NewRequest(http.MethodPost, target, nil)
		if err != nil {
			t.Fatalf("%q leads to %q: %v", endpoint, target, err)
		}
		if request.URL.User != nil || request.URL.Fragment != "" || origin(request.URL) != "http://h:80" || hostPort(request.URL) != "h:80" {
			t.Errorf("%q leads to %q", endpoint, target)
		}
	})
}

func TestInvariant5_SSEPayloadBytesAreUnchanged(t *testing.T) {
	peer := newSSEPeer(t, func(p *ssePeer) {
		p.answer = func(send func(string), _ jsonrpc.Message) {
			for _, text := range []string{oddNotice, oddResult, oddError} {
				send(text)
			}
		}
	})
	transport, sink := greetBy(t, openSSE, endpointOf(t, peer.sse()))
	sendCall(t, transport, 2)
	for _, want := range []string{oddNotice, oddResult, oddError} {
		if diff := cmp.Diff(want, sink.next(t)); diff != "" {
			t.Errorf("(-sent +received):\n%s", diff)
		}
	}
	const odd = `{ "params":{"n":12345678901234567890 , "s":"\u00e9<&>"},"jsonrpc" :"2.0","method":"n"}`
	sendLine(t, transport, odd)
	peer.await(t, "notification as it was", func(s httpSeen) bool { return s.body == odd })
}

func TestSSEEndOfTheStreamIsTheEndOfTheConnection(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(p *ssePeer)
		want string
	}{
		"ended":  {func(p *ssePeer) { close(p.hangUp) }, "ended its event stream"},
		"broken": {func(p *ssePeer) { p.CloseClientConnections() }, "broke off its event stream"},
	} {
		t.Run(name, func(t *testing.T) {
			peer := newSSEPeer(t, func(p *ssePeer) { p.answer = func(func(string), jsonrpc.Message) {} })
			transport, sink := greetBy(t, openSSE, endpointOf(t, peer.sse()))
			sendCall(t, transport, 2)
			peer.await(t, "call", func(s httpSeen) bool { return s.method == string(mcp.MethodToolsCall) })
			peer.send(oddNotice)
			sink.next(t)
			test.end(peer)
			if err := awaitEnd(t, transport); !strings.Contains(err.Error(), strings.TrimPrefix(peer.URL, "http://")+" "+test.want) {
				t.Errorf("the connection ended with %q, want %q", err, test.want)
			}
			m, _ := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":3,"method":"ping"}`))
			if _, err := transport.Send(m); err == nil {
				t.Error("a dead connection takes messages")
			}
		})
	}
}

func TestSSEWhatIsNoStreamFails(t *testing.T) {
	for name, test := range map[string]struct {
		get  http.HandlerFunc
		want string
	}{
		"405":      {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 405) }, `HTTP status 405 (Method Not Allowed): no; is the url in its config the one for MCP?; if the server speaks Streamable HTTP, its type in the config is "http"`},
		"400":      {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Invalid session ID", 400) }, `its type in the config is "http"`},
		"web page": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, `answered with "text/html" where a stream of events was expected`},
		"hang-up":  {func(w http.ResponseWriter, _ *http.Request) { hangUp(w, true) }, "talking to"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://other.invalid/?canary", 302)
		}, "credentials never go to another scheme, host or port"},
	} {
		t.Run(name, func(t *testing.T) {
			peer := newSSEPeer(t, func(p *ssePeer) {
				p.get = func(w http.ResponseWriter, r *http.Request) bool { test.get(w, r); return true }
			})
			err := handshakeErrorBy(t, openSSE, endpointOf(t, peer.sse()))
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("the error is %q, want %q", err, test.want)
			}
			// net/http itself asks again where a kept connection is hung up.
			if got := len(peer.requests("")); got != 1 && name != "hang-up" {
				t.Errorf("%d requests, want 1", got)
			}
		})
	}
}

// Servers acknowledge with any status of the 2xx, at once or when they have the answer.
func TestSSEAcknowledgementsDoNotMatter(t *testing.T) {
	for name, post := range map[string]func(w http.ResponseWriter, r *http.Request){
		"200": func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, 200, `{"jsonrpc":"2.0","id":2,"result":"not this"}`)
		},
		"204": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"no end": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(202)
			_, _ = io.WriteString(w, "Acc")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"never": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			peer := newSSEPeer(t, func(p *ssePeer) {
				p.post = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
					if m.Kind != jsonrpc.Request {
						return false
					}
					p.react(m)
					post(w, r)
					return true
				}
			})
			transport, sink := greetBy(t, openSSE, endpointOf(t, peer.sse()))
			sendCall(t, transport, 2)
			if got := sink.next(t); got != `{"jsonrpc":"2.0","id":2,"result":{}}` {
				t.Errorf("got %s", got)
			}
			assertLives(t, transport, sink)
			transport.Close()
			if transport.PID() != 0 || transport.StderrTail() != "" || transport.Unsent(0) || len(sink.messages) > 0 {
				t.Error("a server over HTTP has no process, and answers once")
			}
		})
	}
}

func TestSSENothingOvertakesInitialized(t *testing.T) {
	taken := make(chan struct{})
	peer := newSSEPeer(t, func(p *ssePeer) {
		p.post = func(_ http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
			switch m.MethodName() {
			case string(mcp.MethodNotificationInitialized):
				time.Sleep(30 * time.Millisecond) // time to be overtaken
				close(taken)
			case string(mcp.MethodToolsCall):
				select {
				case <-taken:
				default:
					t.Error("a call came before initialized was taken")
				}
			}
			return false
		}
	})
	transport, sink := greetBy(t, openSSE, endpointOf(t, peer.sse()))
	sendCall(t, transport, 2)
	sink.next(t)
}

func TestSSEOtherEventsAreSkipped(t *testing.T) {
	peer := newSSEPeer(t, nil)
	transport, sink := greetBy(t, openSSE, endpointOf(t, peer.sse()))
	peer.mu.Lock()
	peer.events("event: ping\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"no\"}\n\n: ping\n\ndata: noise\n\ndata: " + oddNotice + "\n\n")
	peer.mu.Unlock()
	if got := sink.next(t); got != oddNotice {
		t.Errorf("got %s", got)
	}
	assertLives(t, transport, sink)
}

func TestSSEAnswerThatIsTooLongFailsAlone(t *testing.T) {
	peer := newSSEPeer(t, func(p *ssePeer) {
		p.answer = func(send func(string), m jsonrpc.Message) {
			result := "{}"
			if m.MethodName() == string(mcp.MethodToolsCall) {
				result = `"` + strings.Repeat("x", 5000) + `"`
			}
			send(resultFor(m, result))
		}
	})
	limited := func(ctx context.Context, e Endpoint) (Transport, error) {
		transport, err := newEventStream(ctx, e)
		if err == nil {
			transport.limit = 1000
		}
		return transport, err
	}
	transport, sink := greetBy(t, limited, endpointOf(t, peer.sse()))
	sendCall(t, transport, 2)
	var long *jsonrpc.TooLongError
	if f := sink.failure(t); f.id != 2 || !errors.As(f.err, &long) {
		t.Errorf("request %d failed with %v", f.id, f.err)
	}
	assertLives(t, transport, sink)
}

func TestSSERefusedConnection(t *testing.T) {
	noLeak(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	err = handshakeErrorBy(t, openSSE, endpointOf(t, "http://"+address+"/sse?token=canary"))
	if !dialFailed(err) || !strings.Contains(err.Error(), address+" cannot be reached: ") || strings.Contains(err.Error(), "canary") {
		t.Errorf("the error is %q", err)
	}
}

func TestSSECloseBeforeStart(t *testing.T) {
	noLeak(t)
	transport, err := openSSE(t.Context(), endpointOf(t, "http://127.0.0.1:1/"))
	if err != nil {
		t.Fatal(err)
	}
	transport.Close()
	transport.Start(newTestSink())
	if err := awaitEnd(t, transport); !errors.Is(err, errStopped) {
		t.Errorf("the connection ended with %v", err)
	}
}
