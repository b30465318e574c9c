package upstream

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// sseSecret is the session in the address for messages of an ssePeer.
const sseSecret = "sse-session-0123456789"

// ssePeer is a scripted MCP server of the older HTTP with SSE, mounted at /base. It
// greets by itself.
type ssePeer struct {
	*httptest.Server
	// endpoint is the data of the first event, in which HERE is the peer's own origin.
	endpoint string
	// get replaces the stream where it reports true.
	get func(w http.ResponseWriter, r *http.Request) bool
	// elsewhere answers what does not go to the address for messages where it reports true.
	elsewhere func(w http.ResponseWriter, r *http.Request) bool
	// post replaces the answer to a POST of a message where it reports true.
	post func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool
	// answer reacts to requests other than initialize, with send for events.
	answer func(send func(string), m jsonrpc.Message)
	// hangUp ends the stream when it is closed.
	hangUp chan struct{}

	mu   sync.Mutex
	seen []httpSeen
	// events sends on the stream that was opened last.
	events func(string)
}

func newSSEPeer(t *testing.T, change func(*ssePeer)) *ssePeer {
	t.Helper()
	noLeak(t)
	p := &ssePeer{
		endpoint: "/base/messages/?session_id=" + sseSecret, hangUp: make(chan struct{}),
		answer: func(send func(string), m jsonrpc.Message) { send(resultFor(m, "{}")) },
	}
	if change != nil {
		change(p)
	}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// sse is the url of the stream.
func (p *ssePeer) sse() string { return p.URL + "/base/sse" }

func (p *ssePeer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, _ := jsonrpc.Parse(body)
	p.mu.Lock()
	p.seen = append(p.seen, httpSeen{r.Method, m.MethodName(), r.URL.RequestURI(), r.Header.Clone(), string(body)})
	p.mu.Unlock()
	switch {
	case r.Method == http.MethodGet && p.get != nil && p.get(w, r):
	case r.Method == http.MethodGet && r.URL.Path == "/base/sse":
		p.stream(w, r)
	case p.elsewhere != nil && p.elsewhere(w, r):
	case r.URL.Path == "/base/sse":
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
	case r.URL.RequestURI() != "/base/messages/?session_id="+sseSecret:
		http.Error(w, "no such thing", http.StatusNotFound)
	case p.post != nil && p.post(w, r, m):
	default:
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "Accepted")
		p.react(m)
	}
}

func (p *ssePeer) react(m jsonrpc.Message) {
	switch {
	case m.MethodName() == string(mcp.MethodInitialize):
		p.send(resultFor(m, `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"peer","version":"1"}}`))
	case m.Kind == jsonrpc.Request:
		p.answer(p.send, m)
	}
}

// send sends an event named message.
func (p *ssePeer) send(data string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events("event: message\ndata: " + data + "\n\n")
}

func (p *ssePeer) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	write := func(text string) {
		_, _ = io.WriteString(w, text)
		w.(http.Flusher).Flush()
	}
	p.mu.Lock()
	p.events = write
	write(": hello\r\n\r\n")
	endpoint := strings.Replace(p.endpoint, "HERE", "http://"+r.Host, 1)
	write(fmt.Sprintf("event: endpoint\r\ndata: %s\r\n\r\n", endpoint))
	p.mu.Unlock()
	select {
	case <-r.Context().Done():
	case <-p.hangUp:
	}
	p.mu.Lock() // nobody may be writing
	p.events = func(string) {}
	p.mu.Unlock()
}

func (p *ssePeer) requests(verb string) []httpSeen {
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
func (p *ssePeer) await(t *testing.T, what string, fits func(httpSeen) bool) httpSeen {
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
