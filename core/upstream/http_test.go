package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

func TestHTTPHeaders(t *testing.T) {
	streaming := make(chan struct{})
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.listen = func(w http.ResponseWriter, r *http.Request) {
			startEvents(w)
			close(streaming)
			<-r.Context().Done()
		}
	})
	e := endpointOf(t, strings.Replace(peer.URL, "http://", "http://me:pw@", 1)+"/mcp?token=q")
	e.Headers = map[string]string{"X-Key": " k\n", "accept": "nothing"}
	transport, sink := greeted(t, e)
	call(t, transport, 2)
	sink.next(t)
	<-streaming
	transport.Close()

	const both = "application/json, text/event-stream"
	want := map[string][]string{ // Accept, session, protocol version
		"POST initialize":                {both, "", ""},
		"POST notifications/initialized": {both, peerSession, "2025-11-25"},
		"POST tools/call":                {both, peerSession, "2025-11-25"},
		"GET ":                           {"text/event-stream", peerSession, "2025-11-25"},
		"DELETE ":                        {"", peerSession, "2025-11-25"},
	}
	got := make(map[string][]string)
	for _, seen := range peer.requests("") {
		got[seen.verb+" "+seen.method] = []string{
			strings.Replace(seen.header.Get("Accept"), "nothing", "", 1),
			seen.header.Get(mcp.HeaderSessionID), seen.header.Get(mcp.HeaderProtocolVersion),
		}
		if key, auth := seen.header.Get("X-Key"), seen.header.Get("Authorization"); key != "k" || auth != "Basic bWU6cHc=" {
			t.Errorf("%s came with X-Key %q and Authorization %q", seen.verb, key, auth)
		}
		if seen.path != "/mcp?token=q" {
			t.Errorf("%s went to %s", seen.verb, seen.path)
		}
		if media := seen.header.Get("Content-Type"); seen.verb == "POST" && media != "application/json" {
			t.Errorf("a POST has the content type %q", media)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

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
				transport, sink := greeted(t, endpointOf(t, peer.URL))
				call(t, transport, 2)
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
			event(result(m, "{}"))
		}
		p.listen = func(w http.ResponseWriter, r *http.Request) {
			startEvents(w)(oddNotice)
			<-r.Context().Done()
		}
	})
	transport, sink := greeted(t, endpointOf(t, peer.URL))
	if diff := cmp.Diff(oddNotice, sink.next(t)); diff != "" {
		t.Errorf("on the listening stream (-sent +received):\n%s", diff)
	}
	call(t, transport, 2)
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
	transport, sink := greeted(t, endpointOf(t, peer.URL))
	call(t, transport, 2)
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
			transport, sink := greeted(t, endpointOf(t, peer.URL))
			call(t, transport, 2)
			if name == "stream broken" {
				sink.next(t)
			}
			failed := sink.failure(t)
			host := strings.TrimPrefix(peer.URL, "http://")
			if text := failed.err.Error(); failed.id != 2 || !strings.HasPrefix(text, host+" ") || !strings.Contains(text, test.want) {
				t.Errorf("request %d failed with %q, want %q of %s", failed.id, text, test.want, host)
			}
			lives(t, transport, sink)
		})
	}
}

func TestHTTPStreamIsDeliveredInOrder(t *testing.T) {
	const notices = 50
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.answer = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			event := startEvents(w)
			for i := range notices {
				event(fmt.Sprintf(`{"jsonrpc":"2.0","method":"n","params":{"i":%d}}`, i))
			}
			event(result(m, "{}"))
		}
	})
	transport, sink := greeted(t, endpointOf(t, peer.URL))
	call(t, transport, 2)
	for i := range notices {
		if want := fmt.Sprintf(`{"i":%d}`, i); !strings.Contains(sink.next(t), want) {
			t.Fatalf("notification %d came at another place", i)
		}
	}
	if got := sink.message(t); got.Kind != jsonrpc.Response {
		t.Errorf("the last message is %s", got.Raw)
	}
}

// A server's own request comes on the stream of a call; the reply is a POST.
func TestHTTPServerRequestIsAnswered(t *testing.T) {
	ponged := make(chan struct{})
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.first = func(_ http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
			if m.Kind == jsonrpc.Response {
				close(ponged)
			}
			return false
		}
		p.answer = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			event := startEvents(w)
			event(`{"jsonrpc":"2.0","id":"p-1","method":"ping"}`)
			<-ponged
			event(result(m, "{}"))
		}
	})
	l, _ := linked(t, endpointOf(t, peer.URL))
	caller := newInbox()
	if err := l.forward(request(t, `{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"x"}}`, caller)); err != nil {
		t.Fatal(err)
	}
	if got := caller.wait(t); got != `{"jsonrpc":"2.0","id":"c","result":{}}` {
		t.Errorf("the caller got %s", got)
	}
	pong := peer.await(t, "reply", func(s httpSeen) bool { return s.method == "" && s.body != "" })
	if want := `{"jsonrpc":"2.0","id":"p-1","result":{}}`; pong.body != want {
		t.Errorf("the server got %s, want %s", pong.body, want)
	}
}

func TestHTTPCancelIsToldBeforeTheStreamCloses(t *testing.T) {
	log := make(chan string, 10)
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.first = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
			switch m.MethodName() {
			case string(mcp.MethodToolsCall):
				startEvents(w)
				log <- "called"
				<-r.Context().Done()
				log <- "stream closed"
				return true
			case string(mcp.MethodNotificationCancelled):
				time.Sleep(20 * time.Millisecond) // time for a stream to close too early
				log <- "cancelled"
			}
			return false
		}
	})
	transport, sink := greeted(t, endpointOf(t, peer.URL))
	call(t, transport, 2)
	got := []string{<-log}
	send(t, transport, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	got = append(got, <-log, <-log)
	if want := []string{"called", "cancelled", "stream closed"}; !slices.Equal(got, want) {
		t.Errorf("the server saw %v, want %v", got, want)
	}
	lives(t, transport, sink)
	if len(sink.failures) > 0 {
		t.Errorf("a cancelled request failed: %v", sink.failed(t))
	}
}

// Servers refuse requests that come before notifications/initialized.
func TestHTTPNothingOvertakesInitialized(t *testing.T) {
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.first = func(_ http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
			if m.MethodName() == string(mcp.MethodNotificationInitialized) {
				time.Sleep(30 * time.Millisecond) // time to be overtaken
				p.mu.Lock()
				p.seen = append(p.seen, httpSeen{verb: "taken"})
				p.mu.Unlock()
			}
			return false
		}
	})
	transport, sink := greeted(t, endpointOf(t, peer.URL))
	call(t, transport, 2)
	sink.next(t)
	peer.await(t, "GET", func(s httpSeen) bool { return s.verb == http.MethodGet })
	for _, seen := range peer.requests("") {
		if seen.verb == "taken" {
			return
		}
		if seen.verb == http.MethodGet || seen.method == string(mcp.MethodToolsCall) {
			t.Fatalf("%s %s came before initialized was taken", seen.verb, seen.method)
		}
	}
}

func TestHTTPCloseEndsTheSessionAndAllStreams(t *testing.T) {
	open := make(chan struct{}, 2)
	hang := func(w http.ResponseWriter, r *http.Request) {
		startEvents(w)
		open <- struct{}{}
		<-r.Context().Done()
	}
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.listen = hang
		p.answer = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) { hang(w, r) }
	})
	transport, sink := greeted(t, endpointOf(t, peer.URL))
	call(t, transport, 2)
	<-open
	<-open
	transport.Close()
	transport.Close()
	if got := len(peer.requests(http.MethodDelete)); got != 1 {
		t.Errorf("%d DELETE requests, want 1", got)
	}
	if err := sink.failed(t); !errors.Is(err, errStopped) {
		t.Errorf("the open call failed with %v", err)
	}
	if err := ended(t, transport); !errors.Is(err, errStopped) {
		t.Errorf("the connection ended with %v", err)
	}
	m, _ := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":3,"method":"ping"}`))
	if err := transport.Send(m); !errors.Is(err, errStopped) {
		t.Errorf("sending after Close: %v", err)
	}
	if transport.PID() != 0 || transport.StderrTail() != "" {
		t.Error("a server over HTTP has no process and no stderr")
	}
}

func TestHTTPCloseBeforeStart(t *testing.T) {
	noLeak(t)
	transport, err := openHTTP(t.Context(), endpointOf(t, "http://127.0.0.1:1/"))
	if err != nil {
		t.Fatal(err)
	}
	transport.Close()
	if err := ended(t, transport); !errors.Is(err, errStopped) {
		t.Errorf("the connection ended with %v", err)
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
			transport, sink := greeted(t, endpointOf(t, peer.URL))
			call(t, transport, 2)
			failed := sink.failed(t)
			if err := ended(t, transport); err.Error() != failed.Error() {
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
	transport, _ := greeted(t, endpointOf(t, peer.URL))
	peer.await(t, "GET", func(s httpSeen) bool { return s.verb == http.MethodGet })
	peer.CloseClientConnections()
	peer.Close()
	send(t, transport, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	if err := ended(t, transport); !endsConnection(err) {
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
	transport, sink := greeted(t, endpointOf(t, peer.URL))
	send(t, transport, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	lives(t, transport, sink)
}

func TestHTTPBacklogIsBounded(t *testing.T) {
	release := make(chan struct{})
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.first = func(_ http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) bool { <-release; return false }
	})
	transport, sink := open(t, endpointOf(t, peer.URL))
	call(t, transport, 2)
	big := jsonrpc.Message{Kind: jsonrpc.Notification, Raw: make([]byte, maxBacklog)}
	if err := transport.Send(big); !errors.Is(err, jsonrpc.ErrBacklog) {
		t.Errorf("sending too much: %v", err)
	}
	close(release)
	sink.next(t)
	lives(t, transport, sink)
}

func TestHTTPURLMustBeComplete(t *testing.T) {
	for _, url := range []string{"", "ftp://h/", "h:80/mcp", "http://", "/mcp", "http://u:canary@[::1/", "http://h:canary/"} {
		e := endpointOf(t, url)
		if transport, err := openHTTP(t.Context(), e); err == nil {
			transport.Close()
			t.Errorf("%q was taken", url)
		} else if strings.Contains(err.Error(), "canary") {
			t.Errorf("%q shows a part of the url", err)
		}
	}
}

// A stream that carried its answer and does not end is left after a while; till
// then what comes on it is delivered, but for a second answer.
func TestHTTPMessagesAfterTheAnswer(t *testing.T) {
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.answer = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			event := startEvents(w)
			event(result(m, `{"first":true}`))
			event(result(m, `{"second":true}`))
			event(oddNotice)
			_, _ = io.WriteString(w, ": the end\n\n")
		}
	})
	transport, sink := greeted(t, endpointOf(t, peer.URL))
	call(t, transport, 2)
	if got := sink.next(t); !strings.Contains(got, "first") {
		t.Errorf("the answer is %s", got)
	}
	if got := sink.next(t); got != oddNotice {
		t.Errorf("after the answer came %s", got)
	}
	if len(sink.failures) > 0 {
		t.Errorf("an answered request failed: %v", sink.failed(t))
	}
}
