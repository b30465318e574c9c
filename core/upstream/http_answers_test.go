package upstream

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// Numbers beyond 2^53, exponents, escapes and odd spacing do not survive decoding.
const (
	oddResult = `{ "jsonrpc" :"2.0","result":{"n":12345678901234567890, "f":1.0e+2,"s":"\u00e9<&>","z":null } ,"id":2,"extra":[ ]}`
	oddError  = `{"error":{"code":-32050,"data":{"big":98765432109876543210,  "k":"\u2028"},"message":"m"},"id":2,"jsonrpc":"2.0"}`
	oddNotice = `{"method":"notifications/message","params":{"level":"info","data":{"n":12345678901234567890 ,"x":1E400}},"jsonrpc":"2.0"}`
)

func TestInvariant5_HTTPPayloadBytesAreUnchanged(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, string){
		"body":   func(w http.ResponseWriter, reply string) { writeJSON(w, http.StatusOK, reply) },
		"stream": func(w http.ResponseWriter, reply string) { startEvents(w)(reply) },
		"status": func(w http.ResponseWriter, reply string) { writeJSON(w, http.StatusBadRequest, reply) },
	} {
		for _, reply := range []string{oddResult, oddError} {
			if name == "status" && reply == oddResult {
				continue
			}
			t.Run(name, func(t *testing.T) {
				peer := newHTTPPeer(t, func(p *httpPeer) {
					p.answer = func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) { answer(w, reply) }
				})
				transport, sink := greetPeer(t, endpointOf(t, peer.URL))
				sendCall(t, transport, 2)
				if diff := cmp.Diff(reply, sink.next(t)); diff != "" {
					t.Errorf("(-sent +received):\n%s", diff)
				}
			})
		}
	}
}

func TestInvariant5_HTTPNotificationBytesAreUnchanged(t *testing.T) {
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.answer = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			event := startEvents(w)
			event(oddNotice)
			event(resultFor(m, "{}"))
		}
		p.listen = func(w http.ResponseWriter, r *http.Request) {
			startEvents(w)(oddNotice)
			<-r.Context().Done()
		}
	})
	transport, sink := greetPeer(t, endpointOf(t, peer.URL))
	if diff := cmp.Diff(oddNotice, sink.next(t)); diff != "" {
		t.Errorf("on the listening stream (-sent +received):\n%s", diff)
	}
	sendCall(t, transport, 2)
	if diff := cmp.Diff(oddNotice, sink.next(t)); diff != "" {
		t.Errorf("on the stream of a request (-sent +received):\n%s", diff)
	}
}

func TestHTTPMessageOverSeveralLinesFitsAFrame(t *testing.T) {
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.answer = func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
			writeJSON(w, http.StatusOK, "\n{\"jsonrpc\":\"2.0\",\r\n  \"id\":2,\n\n\"result\":{}}\n")
		}
	})
	transport, sink := greetPeer(t, endpointOf(t, peer.URL))
	sendCall(t, transport, 2)
	if got, want := sink.next(t), `{"jsonrpc":"2.0",    "id":2,  "result":{}}`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What is not the answer to the request never passes for one.
func TestHTTPWhatIsNoAnswerIsAFailure(t *testing.T) {
	body := func(status int, text string) func(http.ResponseWriter, jsonrpc.Message) {
		return func(w http.ResponseWriter, _ jsonrpc.Message) { writeJSON(w, status, text) }
	}
	stream := func(events ...string) func(http.ResponseWriter, jsonrpc.Message) {
		return func(w http.ResponseWriter, _ jsonrpc.Message) {
			send := startEvents(w)
			for _, e := range events {
				send(e)
			}
		}
	}
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter, jsonrpc.Message)
		want   string
	}{
		"202":             {body(202, ""), "without answering it (HTTP status 202)"},
		"204":             {body(204, ""), "without answering it (HTTP status 204)"},
		"empty":           {body(200, ""), "empty answer"},
		"web page":        {body(200, "<html>Sign in</html>"), "no message: <html>Sign in</html>"},
		"other id":        {body(200, `{"jsonrpc":"2.0","id":7,"result":{}}`), "something else than what was asked"},
		"no id":           {body(200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"bad day"}}`), "bad day (code -32600)"},
		"request":         {body(200, `{"jsonrpc":"2.0","id":2,"method":"ping"}`), "something else"},
		"batch":           {body(200, `[{"jsonrpc":"2.0","id":2,"result":{}}]`), "not an object"},
		"cut":             {body(200, `{"jsonrpc":"2.0","id":2,"result":{`), "no message"},
		"502 object":      {body(502, `{"message":"bad gateway"}`), `HTTP status 502 (Bad Gateway): {"message":"bad gateway"}`},
		"502 result":      {body(502, `{"jsonrpc":"2.0","id":2,"result":{}}`), "HTTP status 502"},
		"400 other error": {body(400, `{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m"}}`), "HTTP status 400"},
		"stream ended":    {stream(), "ended its stream without an answer"},
		"stream other id": {stream(`{"jsonrpc":"2.0","id":7,"result":{}}`, "noise"), "ended its stream without an answer"},
		"redirect": {func(w http.ResponseWriter, _ jsonrpc.Message) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusFound)
		}, "redirects (HTTP status 302) POST to GET"},
		"stream broken": {func(w http.ResponseWriter, _ jsonrpc.Message) {
			startEvents(w)(oddNotice)
			panic(http.ErrAbortHandler)
		}, "broke off its answer"},
		"body broken": {func(w http.ResponseWriter, _ jsonrpc.Message) {
			w.Header().Set("Content-Length", "1000")
			writeJSON(w, 200, `{"jsonrpc":"2.0","id":2,`)
		}, "broke off its answer"},
	} {
		t.Run(name, func(t *testing.T) {
			peer := newHTTPPeer(t, func(p *httpPeer) {
				p.first = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
					if m.MethodName() != string(mcp.MethodToolsCall) {
						return false
					}
					test.answer(w, m)
					return true
				}
			})
			transport, sink := greetPeer(t, endpointOf(t, peer.URL))
			sendCall(t, transport, 2)
			if name == "stream broken" {
				sink.next(t)
			}
			failed := sink.failure(t)
			host := strings.TrimPrefix(peer.URL, "http://")
			if text := failed.err.Error(); failed.id != 2 || !strings.HasPrefix(text, host+" ") || !strings.Contains(text, test.want) {
				t.Errorf("request %d failed with %q, want %q of %s", failed.id, text, test.want, host)
			}
			assertLives(t, transport, sink)
		})
	}
}

// hangUp ends the TCP connection of a request; with a reset when hard.
func hangUp(w http.ResponseWriter, hard bool) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	if hard {
		_ = conn.(*net.TCPConn).SetLinger(0)
	}
	_ = conn.Close()
}

func TestHTTPRequestWithoutAnyAnswerEndsTheConnection(t *testing.T) {
	for name, hard := range map[string]bool{"closed": false, "reset": true} {
		t.Run(name, func(t *testing.T) {
			peer := newHTTPPeer(t, func(p *httpPeer) {
				p.answer = func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) { hangUp(w, hard) }
			})
			transport, sink := greetPeer(t, endpointOf(t, peer.URL))
			sendCall(t, transport, 2)
			failed := sink.failed(t)
			if err := awaitEnd(t, transport); err.Error() != failed.Error() {
				t.Errorf("the connection ended with %v, the request with %v", err, failed)
			}
			if !strings.Contains(failed.Error(), strings.TrimPrefix(peer.URL, "http://")) {
				t.Errorf("%q does not say where", failed)
			}
			transport.Close()
			calls := 0
			for _, seen := range peer.requests("") {
				if seen.method == string(mcp.MethodToolsCall) {
					calls++
				}
				if seen.verb == http.MethodDelete {
					t.Error("a server that hung up was sent a DELETE")
				}
			}
			if calls != 1 {
				t.Errorf("the call was sent %d times", calls)
			}
		})
	}
}

func TestHTTPNotificationThatCannotBeSentEndsTheConnection(t *testing.T) {
	peer := newHTTPPeer(t, nil)
	transport, _ := greetPeer(t, endpointOf(t, peer.URL))
	peer.await(t, "GET", func(s httpSeen) bool { return s.verb == http.MethodGet })
	peer.CloseClientConnections()
	peer.Close()
	sendLine(t, transport, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	if err := awaitEnd(t, transport); !endsConnection(err) {
		t.Errorf("the connection ended with %v", err)
	}
}

func TestHTTPRefusedNotificationConcernsNobody(t *testing.T) {
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.first = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
			refuse := m.Kind == jsonrpc.Notification
			if refuse {
				http.Error(w, "I do not like it", http.StatusBadRequest)
			}
			return refuse
		}
	})
	transport, sink := greetPeer(t, endpointOf(t, peer.URL))
	sendLine(t, transport, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	assertLives(t, transport, sink)
}

func TestHTTPAnswerThatIsTooLongFailsAlone(t *testing.T) {
	const limit = 1 << 20
	for _, media := range []string{mediaJSON, mediaEvents} {
		t.Run(media, func(t *testing.T) {
			peer := newHTTPPeer(t, func(p *httpPeer) {
				p.first = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
					if m.MethodName() != string(mcp.MethodToolsCall) {
						return false
					}
					w.Header().Set("Content-Type", media)
					_, _ = io.WriteString(w, "data: ")
					_, _ = io.WriteString(w, strings.Repeat("x", limit+1)+"\n\n")
					return true
				}
			})
			transport, sink := greetPeer(t, endpointOf(t, peer.URL))
			transport.(*streamable).limit = limit // without a listening stream nobody else reads it
			sendCall(t, transport, 2)
			err := sink.failed(t)
			var long *jsonrpc.TooLongError
			if !errors.As(err, &long) || !strings.Contains(err.Error(), "longer than 1 MiB") {
				t.Errorf("the call failed with %v", err)
			}
			assertLives(t, transport, sink)
		})
	}
}

func TestHTTPUnaskedMessageThatIsTooLongIsSkipped(t *testing.T) {
	const limit = 1 << 10
	begin := make(chan struct{})
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.listen = func(w http.ResponseWriter, r *http.Request) {
			event := startEvents(w)
			<-begin
			event(`{"jsonrpc":"2.0","method":"` + strings.Repeat("x", limit) + `"}`)
			event(oddNotice)
			<-r.Context().Done()
		}
	})
	transport, sink := openPeer(t, endpointOf(t, peer.URL))
	transport.(*streamable).limit = limit
	sendLine(t, transport, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	sink.next(t)
	transport.Negotiated("2025-11-25")
	sendLine(t, transport, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	close(begin)
	if got := sink.next(t); got != oddNotice {
		t.Errorf("the next message is %s", got)
	}
	assertLives(t, transport, sink)
}

func TestHTTPWrongPathIsSuspected(t *testing.T) {
	for _, status := range []int{404, 405} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			peer := newHTTPPeer(t, func(p *httpPeer) {
				p.first = func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) bool {
					http.Error(w, "nothing here", status)
					return true
				}
			})
			err := handshakeError(t, endpointOf(t, peer.URL))
			if !strings.Contains(err.Error(), "nothing here; is the url in its config the one for MCP?") {
				t.Errorf("the error is %q", err)
			}
		})
	}
}
