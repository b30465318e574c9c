package endpoint

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-funnel/core/catalog"
	"mcp-funnel/core/hub"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
	"mcp-funnel/core/upstream"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}

// patience is how long something may take on a machine that is busy.
const patience = 20 * time.Second

// fakeServer hands requests to the test, which answers them.
type fakeServer struct {
	requests  chan *upstream.Request
	cancelled chan string
	notes     chan string
}

func (s *fakeServer) Forward(r *upstream.Request)          { s.requests <- r }
func (s *fakeServer) Recall(*upstream.Request) bool        { return true }
func (s *fakeServer) Notify(_ upstream.Caller, raw []byte) { s.notes <- string(raw) }
func (s *fakeServer) SetLogLevel(string)                   {}
func (s *fakeServer) Subscribe(upstream.Session, string)   {}
func (s *fakeServer) Unsubscribe(upstream.Session, string) {}
func (s *fakeServer) Shares(string, string) bool           { return true }
func (s *fakeServer) Cancel(_ *upstream.Request, p []byte) bool {
	s.cancelled <- string(p)
	return true
}

// world is an endpoint over a real hub with one server, that of the test.
type world struct {
	t       *testing.T
	server  *fakeServer
	hub     *hub.Hub
	e       *Endpoint
	path    string
	url     string
	token   string
	reports chan status.HTTP
	log     *safeBuffer
	client  *http.Client
	stop    func()
	// sessions by their keys, as they are inside.
	sessions sync.Map
}

// safeBuffer is written and read at the same time.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// newWorld opens an endpoint at a port of the system's choice.
func newWorld(t *testing.T, adjust ...func(*limits)) *world {
	t.Helper()
	w := &world{
		t: t, path: filepath.Join(t.TempDir(), "state", "http-token"), log: new(safeBuffer), reports: make(chan status.HTTP, 100),
		server: &fakeServer{requests: make(chan *upstream.Request, 1000), cancelled: make(chan string, 1000), notes: make(chan string, 1000)},
		client: &http.Client{Transport: &http.Transport{}},
	}
	ready := make(chan struct{})
	close(ready)
	w.hub = hub.New(hub.Deps{
		Lookup:  func(name string) (hub.Server, bool) { return w.server, name == "s" },
		Servers: func() []hub.Server { return []hub.Server{w.server} },
		Ready:   ready, NameLength: func() int { return 0 }, Version: "1",
		Board: status.NewBoard(), Events: status.NewEvents(100, nil), Log: slog.New(slog.DiscardHandler),
	})
	w.setTools("echo")
	w.e = New(Deps{
		Serve: func(ctx context.Context, id string, stream hub.Stream, r *bufio.Reader, peer hub.Peer) error {
			s := stream.(*session)
			w.sessions.Store(s.key, s)
			return w.hub.Serve(ctx, id, stream, r, peer)
		},
		NewID: w.hub.NewID, TokenPath: w.path,
		Report: func(s status.HTTP) { w.reports <- s },
		Log:    slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	for _, f := range adjust {
		f(&w.e.limits)
	}
	w.open()
	t.Cleanup(func() { w.stop() })
	return w
}

// open runs the endpoint.
func (w *world) open() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.e.Set(Settings{Listen: "127.0.0.1:0"})
	go func() { defer close(done); _ = w.e.Run(ctx) }()
	w.stop = func() {
		cancel()
		<-done
		w.client.CloseIdleConnections()
	}
	w.url = "http://" + w.reported(func(s status.HTTP) bool { return s.Listen != "" }).Listen + "/mcp"
	token, err := os.ReadFile(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	w.token = strings.TrimSpace(string(token))
}

// reported waits for a report.
func (w *world) reported(holds func(status.HTTP) bool) status.HTTP {
	w.t.Helper()
	for {
		select {
		case s := <-w.reports:
			if holds(s) {
				return s
			}
		case <-time.After(patience):
			w.t.Fatal("never reported")
		}
	}
}

func (w *world) setTools(names ...string) {
	var raw [][]byte
	for _, name := range names {
		raw = append(raw, fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object","properties":{}}}`, name))
	}
	w.hub.SetCatalog(catalog.New([]catalog.Source{{Server: "s", Prefix: "s", Tools: raw}}, catalog.Filter{}))
}

// next is the next request that the server gets.
func (w *world) next() *upstream.Request {
	w.t.Helper()
	select {
	case r := <-w.server.requests:
		return r
	case <-time.After(patience):
		w.t.Fatal("the server got no request")
		return nil
	}
}

func reply(r *upstream.Request, result string) {
	r.Caller.Reply(r, jsonrpc.NewResult(r.Message.ID.Of(r.Message.Raw), []byte(result)))
}

func progress(r *upstream.Request, token string, n int) {
	r.Caller.Progress(r, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, n))
}

// header changes one header of a request; an empty value takes it out.
type header struct{ name, value string }

// do sends a request as a well-behaved client would, but for the given headers.
func (w *world) do(ctx context.Context, method, url, body string, headers ...header) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.token)
	r.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		switch {
		case h.name == "Host":
			r.Host = h.value
		case h.value == "":
			r.Header.Del(h.name)
		default:
			r.Header.Set(h.name, h.value)
		}
	}
	response, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// text is a whole body.
func text(t *testing.T, r *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	return string(body)
}

const initialize = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

// peer is a client with a session.
type peer struct {
	*world
	key string
}

func (w *world) attach() *peer {
	w.t.Helper()
	r := w.do(w.t.Context(), http.MethodPost, w.url, initialize)
	body := text(w.t, r)
	p := &peer{world: w, key: r.Header.Get("Mcp-Session-Id")}
	if r.StatusCode != http.StatusOK || p.key == "" || !strings.Contains(body, `"protocolVersion":"2025-11-25"`) {
		w.t.Fatalf("initialize: %s, session %q, %s", r.Status, p.key, body)
	}
	if r := p.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.StatusCode != http.StatusAccepted || text(w.t, r) != "" {
		w.t.Fatalf("initialized: %s", r.Status)
	}
	return p
}

func (p *peer) headers(more []header) []header {
	return append([]header{{"Mcp-Session-Id", p.key}, {"Mcp-Protocol-Version", "2025-11-25"}}, more...)
}

func (p *peer) post(body string, more ...header) *http.Response {
	p.t.Helper()
	return p.do(p.t.Context(), http.MethodPost, p.url, body, p.headers(more)...)
}

// later posts without waiting for the head of the response.
func (p *peer) later(body string, more ...header) <-chan *http.Response {
	p.t.Helper()
	responses := make(chan *http.Response, 1)
	go func() { responses <- p.post(body, more...) }()
	return responses
}

func (p *peer) get(more ...header) *events {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	p.t.Cleanup(cancel)
	r := p.do(ctx, http.MethodGet, p.url, "", p.headers(more)...)
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "text/event-stream" {
		p.t.Fatalf("GET: %s, %v", r.Status, r.Header)
	}
	return &events{t: p.t, r: bufio.NewReader(r.Body), close: cancel}
}

// events reads an event stream line by line, independently of the code under test.
type events struct {
	t     *testing.T
	r     *bufio.Reader
	close func()
}

type received struct{ name, id, data string }

func readEvents(t *testing.T, r *http.Response) *events {
	t.Helper()
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("no event stream: %s, %v, %s", r.Status, r.Header, text(t, r))
	}
	return &events{t: t, r: bufio.NewReader(r.Body), close: func() { _ = r.Body.Close() }}
}

// next is the next event with data or an id; false at the end.
func (e *events) next() (received, bool) {
	e.t.Helper()
	var got received
	for {
		line, err := e.r.ReadString('\n')
		if err != nil {
			return received{}, false
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "event":
			got.name = value
		case "id":
			got.id = value
		case "data":
			got.data = value
		case "":
			if got != (received{}) {
				return got, true
			}
		}
	}
}

// message is the next event with data.
func (e *events) message() received {
	e.t.Helper()
	for {
		got, ok := e.next()
		if !ok {
			e.t.Fatal("the stream ended")
		}
		if got.data != "" {
			return got
		}
	}
}

// ends checks that nothing follows.
func (e *events) ends() {
	e.t.Helper()
	if got, ok := e.next(); ok {
		e.t.Errorf("after the end there is %+v", got)
	}
}

func call(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"s__echo","arguments":{},"_meta":{"progressToken":` + id + `}}}`
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
