package upstream

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"go.uber.org/goleak"

	"mcp-funnel/core/jsonrpc"
)

const (
	// peerSession is the session that an httpPeer gives.
	peerSession = "session-0123456789"
	// peerWait is the longest that a test waits for something to happen.
	peerWait = 10 * time.Second
)

// httpSeen is a request as a peer got it.
type httpSeen struct {
	verb   string // HTTP method
	method string // of the message; "" for a response
	path   string
	header http.Header
	body   string
}

// httpPeer is a scripted MCP server over HTTP. It greets by itself.
type httpPeer struct {
	*httptest.Server
	// session is what initialize gives; "" for none.
	session string
	// first replaces the answer to every POST where it reports true.
	first func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool
	// answer answers requests other than initialize.
	answer func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message)
	// listen answers GET; without it there is no listening stream.
	listen http.HandlerFunc

	mu   sync.Mutex
	seen []httpSeen
}

// newHTTPPeer starts a peer after change had a look at it. When the test ends no
// goroutine may be left.
func newHTTPPeer(t *testing.T, change func(*httpPeer)) *httpPeer {
	t.Helper()
	noLeak(t)
	p := &httpPeer{session: peerSession, answer: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		writeJSON(w, http.StatusOK, string(jsonrpc.NewResult(m.ID.Of(m.Raw), []byte("{}"))))
	}}
	if change != nil {
		change(p)
	}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// noLeak fails the test when it leaves a goroutine. To be called first.
func noLeak(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		// One look is patient for a second only, which a busy machine may need.
		err := goleak.Find(before)
		for deadline := time.Now().Add(peerWait); err != nil && time.Now().Before(deadline); {
			err = goleak.Find(before)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

func (p *httpPeer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, _ := jsonrpc.Parse(body)
	p.mu.Lock()
	p.seen = append(p.seen, httpSeen{r.Method, m.MethodName(), r.URL.RequestURI(), r.Header.Clone(), string(body)})
	p.mu.Unlock()
	switch {
	case r.Method == http.MethodGet && p.listen != nil:
		p.listen(w, r)
	case r.Method == http.MethodGet:
		http.Error(w, "no stream here", http.StatusMethodNotAllowed)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case p.first != nil && p.first(w, r, m):
	case m.MethodName() == string(mcp.MethodInitialize):
		if p.session != "" {
			w.Header().Set(mcp.HeaderSessionID, p.session)
		}
		writeJSON(w, http.StatusOK, string(jsonrpc.NewResult(m.ID.Of(m.Raw), []byte(
			`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"peer","version":"1"}}`))))
	case m.Kind == jsonrpc.Request:
		p.answer(w, r, m)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// requests are those that got here, of one HTTP method or of all with "".
func (p *httpPeer) requests(verb string) []httpSeen {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []httpSeen
	for _, seen := range p.seen {
		if verb == "" || seen.verb == verb {
			list = append(list, seen)
		}
	}
	return list
}

// await waits until a request that fits got here.
func (p *httpPeer) await(t *testing.T, what string, fits func(httpSeen) bool) httpSeen {
	t.Helper()
	for deadline := time.Now().Add(peerWait); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		for _, seen := range p.requests("") {
			if fits(seen) {
				return seen
			}
		}
	}
	t.Fatalf("no %s came; what came: %v", what, p.requests(""))
	return httpSeen{}
}

func writeJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// startEvents begins an event stream and returns what sends one event.
func startEvents(w http.ResponseWriter) (send func(data string)) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	flush := w.(http.Flusher).Flush
	flush()
	return func(data string) {
		_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", data)
		flush()
	}
}

// resultFor is a response to m.
func resultFor(m jsonrpc.Message, body string) string {
	return string(jsonrpc.NewResult(m.ID.Of(m.Raw), []byte(body)))
}

// testSink notes what a transport delivers.
type testSink struct {
	messages chan jsonrpc.Message
	failures chan sinkFailure
}

type sinkFailure struct {
	id  int64
	err error
}

func newTestSink() *testSink {
	return &testSink{messages: make(chan jsonrpc.Message, 100), failures: make(chan sinkFailure, 100)}
}

func (s *testSink) Receive(m jsonrpc.Message, _ int64) { s.messages <- m }
func (s *testSink) Failed(id int64, err error)         { s.failures <- sinkFailure{id, err} }
func (s *testSink) next(t *testing.T) string           { t.Helper(); return string(s.message(t).Raw) }
func (s *testSink) failed(t *testing.T) error          { t.Helper(); return s.failure(t).err }
func (s *testSink) failure(t *testing.T) sinkFailure {
	t.Helper()
	select {
	case f := <-s.failures:
		return f
	case m := <-s.messages:
		t.Fatalf("a message came where a failure was expected: %s", m.Raw)
	case <-time.After(peerWait):
		t.Fatal("no failure was told")
	}
	return sinkFailure{}
}

func (s *testSink) message(t *testing.T) jsonrpc.Message {
	t.Helper()
	select {
	case m := <-s.messages:
		return m
	case f := <-s.failures:
		t.Fatalf("request %d failed: %v", f.id, f.err)
	case <-time.After(peerWait):
		t.Fatal("no message came")
	}
	return jsonrpc.Message{}
}

// endpointOf is an endpoint without secrets and with a client of its own.
func endpointOf(t *testing.T, url string) Endpoint {
	t.Helper()
	client := NewHTTPClient()
	t.Cleanup(client.CloseIdleConnections)
	return Endpoint{
		Server: "s", URL: url, Client: client, Logger: slog.New(slog.DiscardHandler),
		Mask: func(text string) string { return text },
	}
}

// openPeer makes a transport that delivers to a testSink.
func openPeer(t *testing.T, e Endpoint) (Transport, *testSink) {
	t.Helper()
	return openBy(t, openHTTP, e)
}

// opening is openHTTP or openSSE.
type opening func(context.Context, Endpoint) (Transport, error)

func openBy(t *testing.T, open opening, e Endpoint) (Transport, *testSink) {
	t.Helper()
	transport, err := open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.Close)
	sink := newTestSink()
	transport.Start(sink)
	return transport, sink
}

// greetPeer makes a transport and performs the handshake on it.
func greetPeer(t *testing.T, e Endpoint) (Transport, *testSink) {
	t.Helper()
	return greetBy(t, openHTTP, e)
}

func greetBy(t *testing.T, open opening, e Endpoint) (Transport, *testSink) {
	t.Helper()
	transport, sink := openBy(t, open, e)
	sendLine(t, transport, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	sink.next(t)
	transport.Negotiated("2025-11-25")
	sendLine(t, transport, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return transport, sink
}

// linkedTo makes a transport with a link that has greeted the server.
func linkedTo(t *testing.T, e Endpoint) (*link, handshake) {
	t.Helper()
	return linkedBy(t, openHTTP, e)
}

func linkedBy(t *testing.T, open opening, e Endpoint) (*link, handshake) {
	t.Helper()
	transport, err := open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.Close)
	l := newLink("s", 0)
	l.transport = transport
	transport.Start(l)
	ctx, cancel := context.WithTimeout(t.Context(), peerWait)
	defer cancel()
	shake, err := l.greet(ctx, mcp.Implementation{Name: "test", Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	return l, shake
}

func sendLine(t *testing.T, transport Transport, line string) {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(line))
	if err == nil {
		_, err = transport.Send(m)
	}
	if err != nil {
		t.Fatalf("sending %s: %v", line, err)
	}
}

// callX is a client's call.
const callX = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`

// sendCall sends a tools/call with that id.
func sendCall(t *testing.T, transport Transport, id int) {
	t.Helper()
	sendLine(t, transport, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x"}}`, id))
}

// awaitEnd waits until the connection is over.
func awaitEnd(t *testing.T, transport Transport) error {
	t.Helper()
	select {
	case <-transport.Done():
		return transport.Err()
	case <-time.After(peerWait):
		t.Fatal("the connection goes on")
		return nil
	}
}

// assertLives fails the test when the connection is over, or a call is not answered.
func assertLives(t *testing.T, transport Transport, sink *testSink) {
	t.Helper()
	sendLine(t, transport, `{"jsonrpc":"2.0","id":99,"method":"ping"}`)
	if got := sink.next(t); !strings.Contains(got, `"id":99`) {
		t.Fatalf("a ping was answered by %s", got)
	}
	select {
	case <-transport.Done():
		t.Fatalf("the connection is over: %v", transport.Err())
	default:
	}
}
