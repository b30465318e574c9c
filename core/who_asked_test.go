package core

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-funnel/core/hub"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

// asker is a server that asks its client something on the stream of each call, and
// answers the call with what it was told.
type asker struct {
	mu      sync.Mutex
	lastID  int
	waiting map[string]chan string
}

func (a *asker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Parse(body)
	switch {
	case r.Method != http.MethodPost:
		http.Error(w, "no stream here", http.StatusMethodNotAllowed)
	case err != nil:
		http.Error(w, "no message", http.StatusBadRequest)
	case m.Kind == jsonrpc.Response:
		id, _ := jsonrpc.Unquote(m.ID.Of(m.Raw))
		answer, _ := jsonrpc.LookupString(m.Raw, m.Result, "of")
		a.mu.Lock()
		waiting := a.waiting[id]
		a.mu.Unlock()
		waiting <- answer
		w.WriteHeader(http.StatusAccepted)
	case m.Kind == jsonrpc.Notification:
		w.WriteHeader(http.StatusAccepted)
	default:
		a.answer(w, m)
	}
}

func (a *asker) answer(w http.ResponseWriter, m jsonrpc.Message) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(message []byte) {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", message)
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
	}
	result := "{}"
	switch m.MethodName() {
	case "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"asker","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		who, _ := jsonrpc.LookupString(m.Raw, m.Params, "arguments", "who")
		method, _ := jsonrpc.LookupString(m.Raw, m.Params, "arguments", "method")
		answer := make(chan string, 1)
		a.mu.Lock()
		a.lastID++
		id := fmt.Sprintf("q%d", a.lastID)
		a.waiting[id] = answer
		a.mu.Unlock()
		send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%q,"method":%q,"params":{"for":%q}}`, id, method, who))
		select {
		case got := <-answer:
			result = fmt.Sprintf(`{"for":%q,"by":%q}`, who, got)
		case <-time.After(30 * time.Second):
			result = `{"for":"nobody"}`
		}
	}
	send(jsonrpc.NewResult(m.ID.Of(m.Raw), []byte(result)))
}

// bridged is a client session of a funnel.
type bridged struct {
	t    *testing.T
	name string
	conn net.Conn
	// replies are to its own requests; wrong counts questions that were not for it.
	replies chan jsonrpc.Message
	wrong   atomic.Int64
}

// attach attaches a client that answers each question with its name.
func (w *world) attach(name string, peer hub.Peer) *bridged {
	w.t.Helper()
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		_ = w.funnel.ServeBridge(ctx, w.funnel.NewSessionID(), theirs, bufio.NewReader(theirs), peer)
	})
	b := &bridged{t: w.t, name: name, conn: ours, replies: make(chan jsonrpc.Message, 10)}
	work.Go(func() { b.read() })
	w.t.Cleanup(func() { cancel(); _ = ours.Close(); work.Wait() })
	b.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{},"elicitation":{}},"clientInfo":{"name":"` + name + `","version":"1"}}}`)
	<-b.replies
	b.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return b
}

func (b *bridged) read() {
	reader := jsonrpc.NewReader(b.conn, 0)
	for {
		line, err := reader.Read()
		if err != nil {
			close(b.replies)
			return
		}
		m, err := jsonrpc.Parse(line)
		switch {
		case err != nil: // what the app says to the bridge
		case m.Kind == jsonrpc.Response:
			b.replies <- m.Clone()
		case m.Kind == jsonrpc.Request:
			if who, _ := jsonrpc.LookupString(m.Raw, m.Params, "for"); who != b.name {
				b.wrong.Add(1)
			}
			b.send(string(jsonrpc.NewResult(m.ID.Of(m.Raw), []byte(`{"of":"`+b.name+`"}`))))
		}
	}
}

func (b *bridged) send(line string) {
	if _, err := b.conn.Write([]byte(line + "\n")); err != nil {
		b.t.Errorf("%s: %v", b.name, err)
	}
}

// call calls a tool and returns the response.
func (b *bridged) call(id int, tool, arguments string) jsonrpc.Message {
	b.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, arguments))
	select {
	case m := <-b.replies:
		return m
	case <-time.After(30 * time.Second):
		b.t.Errorf("%s: no reply", b.name)
		return jsonrpc.Message{}
	}
}

// Invariant: nobody is asked what another one caused.
func TestInvariantQuestions(t *testing.T) {
	t.Run("who-asked", questionsReachTheirOwnSession)
}

// questionsReachTheirOwnSession has two sessions at the same time cause a server that
// they share to ask: each is asked only what is its own.
func questionsReachTheirOwnSession(t *testing.T) {
	peer := httptest.NewServer(&asker{waiting: make(map[string]chan string)})
	t.Cleanup(func() { peer.CloseClientConnections(); peer.Close() })
	w := newFunnel(t, `{"mcpServers": {"s": {"url": "`+peer.URL+`"}}}`)
	w.run()
	w.until(allConnected)
	w.until(func(s status.Snapshot) bool { return s.ExposedTools == 1 })
	clients := []*bridged{w.attach("one", hub.Peer{}), w.attach("two", hub.Peer{})}
	const rounds = 1000
	for round := range rounds {
		method := []string{"sampling/createMessage", "elicitation/create"}[round%2]
		var calls sync.WaitGroup
		for _, c := range clients {
			calls.Go(func() {
				m := c.call(round+1, "s__ask", fmt.Sprintf(`{"who":%q,"method":%q}`, c.name, method))
				if want := fmt.Sprintf(`{"for":%q,"by":%q}`, c.name, c.name); string(m.Result.Of(m.Raw)) != want {
					t.Errorf("round %d, %s: %s", round, c.name, m.Raw)
				}
			})
		}
		calls.Wait()
		if t.Failed() {
			break
		}
	}
	for _, c := range clients {
		if n := c.wrong.Load(); n > 0 {
			t.Errorf("%s was asked %d questions of another one", c.name, n)
		}
	}
}

// waitFor waits for something that takes a moment.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}
