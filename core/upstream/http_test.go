package upstream

import (
	"errors"
	"fmt"
	"io"
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
	transport, sink := greetPeer(t, e)
	sendCall(t, transport, 2)
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

func TestHTTPStreamIsDeliveredInOrder(t *testing.T) {
	const notices = 50
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.answer = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			event := startEvents(w)
			for i := range notices {
				event(fmt.Sprintf(`{"jsonrpc":"2.0","method":"n","params":{"i":%d}}`, i))
			}
			event(resultFor(m, "{}"))
		}
	})
	transport, sink := greetPeer(t, endpointOf(t, peer.URL))
	sendCall(t, transport, 2)
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
			event(resultFor(m, "{}"))
		}
	})
	l, _ := linkedTo(t, endpointOf(t, peer.URL))
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
	transport, sink := greetPeer(t, endpointOf(t, peer.URL))
	sendCall(t, transport, 2)
	got := []string{<-log}
	sendLine(t, transport, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	got = append(got, <-log, <-log)
	if want := []string{"called", "cancelled", "stream closed"}; !slices.Equal(got, want) {
		t.Errorf("the server saw %v, want %v", got, want)
	}
	assertLives(t, transport, sink)
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
	transport, sink := greetPeer(t, endpointOf(t, peer.URL))
	sendCall(t, transport, 2)
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
	transport, sink := greetPeer(t, endpointOf(t, peer.URL))
	sendCall(t, transport, 2)
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
	if err := awaitEnd(t, transport); !errors.Is(err, errStopped) {
		t.Errorf("the connection ended with %v", err)
	}
	m, _ := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":3,"method":"ping"}`))
	if _, err := transport.Send(m); !errors.Is(err, errStopped) {
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
	if err := awaitEnd(t, transport); !errors.Is(err, errStopped) {
		t.Errorf("the connection ended with %v", err)
	}
}

func TestHTTPBacklogIsBounded(t *testing.T) {
	release := make(chan struct{})
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.first = func(_ http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) bool { <-release; return false }
	})
	transport, sink := openPeer(t, endpointOf(t, peer.URL))
	sendCall(t, transport, 2)
	big := jsonrpc.Message{Kind: jsonrpc.Notification, Raw: make([]byte, maxBacklog)}
	if _, err := transport.Send(big); !errors.Is(err, jsonrpc.ErrBacklog) {
		t.Errorf("sending too much: %v", err)
	}
	close(release)
	sink.next(t)
	assertLives(t, transport, sink)
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
			event(resultFor(m, `{"first":true}`))
			event(resultFor(m, `{"second":true}`))
			event(oddNotice)
			_, _ = io.WriteString(w, ": the end\n\n")
		}
	})
	transport, sink := greetPeer(t, endpointOf(t, peer.URL))
	sendCall(t, transport, 2)
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
