package hub

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"mcp-funnel/core/catalog"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
	"mcp-funnel/core/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeServer notes what it is given and answers when the test says so.
type fakeServer struct {
	// parked: it has sent nothing yet.
	parked    bool
	requests  chan *upstream.Request
	cancelled chan string
	// notes are what it was told otherwise.
	notes chan string
}

func newFakeServer() *fakeServer {
	return &fakeServer{requests: make(chan *upstream.Request, 100), cancelled: make(chan string, 100), notes: make(chan string, 100)}
}

func (s *fakeServer) Forward(r *upstream.Request) { s.requests <- r }

func (s *fakeServer) Notify(_ upstream.Caller, raw []byte) { s.notes <- "notify " + string(raw) }
func (s *fakeServer) SetLogLevel(level string)             { s.notes <- "level " + level }
func (s *fakeServer) Subscribe(_ upstream.Session, uri string) {
	s.notes <- "subscribe " + uri
}
func (s *fakeServer) Unsubscribe(_ upstream.Session, uri string) {
	s.notes <- "unsubscribe " + uri
}
func (s *fakeServer) Shares(string, string) bool { return true }

func (s *fakeServer) Recall(*upstream.Request) bool { return s.parked }

func (s *fakeServer) Cancel(_ *upstream.Request, params []byte) bool {
	s.cancelled <- string(params)
	return true
}

// reply answers a request as an upstream would.
func reply(r *upstream.Request, result string) {
	r.Caller.Reply(r, jsonrpc.NewResult(r.Message.ID.Of(r.Message.Raw), []byte(result)))
}

// world is a hub with one server and clients over net.Pipe.
type world struct {
	t      *testing.T
	hub    *Hub
	server *fakeServer
	ready  chan struct{}
	cancel context.CancelFunc
	ctx    context.Context //nolint:containedctx // the world of one test
	work   sync.WaitGroup
}

func newWorld(t *testing.T, tools ...string) *world {
	t.Helper()
	w := &world{t: t, server: newFakeServer(), ready: make(chan struct{})}
	w.hub = New(Deps{
		Lookup:  func(name string) (Server, bool) { return w.server, name == "s" },
		Servers: func() []Server { return []Server{w.server} },
		Ready:   w.ready, NameLength: func() int { return 0 }, Version: "1.2.3",
		Board: status.NewBoard(), Events: status.NewEvents(100, nil), Log: slog.New(slog.DiscardHandler),
	})
	w.setTools(tools...)
	<-w.hub.changed
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.work.Go(func() { _ = w.hub.Run(w.ctx) })
	return w
}

func (w *world) setTools(tools ...string) {
	var raw [][]byte
	for _, name := range tools {
		raw = append(raw, fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object","properties":{}}}`, name))
	}
	w.hub.SetCatalog(catalog.New([]catalog.Source{{Server: "s", Prefix: "s", Tools: raw}}, catalog.Filter{}))
}

// end stops everything and joins it.
func (w *world) end() {
	w.cancel()
	w.work.Wait()
}

// client is one attached client.
type client struct {
	t     *testing.T
	conn  net.Conn
	lines chan string
	// link has what the app says to the bridge itself.
	link chan string
	over chan error
}

func (w *world) attach() *client { return w.resume("") }

// resume attaches a client of which an earlier app said something.
func (w *world) resume(resume string) *client {
	ours, theirs := net.Pipe()
	c := &client{t: w.t, conn: ours, lines: make(chan string, 1000), link: make(chan string, 1000), over: make(chan error, 1)}
	w.work.Go(func() {
		c.over <- w.hub.Serve(w.ctx, w.hub.NewID(), theirs, bufio.NewReader(theirs), Peer{PID: 4711, CWD: "/src", Registered: "funnel", Resume: resume})
	})
	w.work.Go(func() {
		defer close(c.lines)
		reader := jsonrpc.NewReader(ours, 0)
		for {
			line, err := reader.Read()
			if err != nil {
				return
			}
			if strings.HasPrefix(string(line), `{"mcp-funnel":`) {
				c.link <- string(line)
				continue
			}
			c.lines <- string(line)
		}
	})
	return c
}

func (c *client) send(line string) {
	c.t.Helper()
	if _, err := c.conn.Write([]byte(line + "\n")); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) receive() string {
	c.t.Helper()
	select {
	case line, open := <-c.lines:
		if !open {
			c.t.Fatal("the session ended")
		}
		return line
	case <-time.After(time.Minute):
		c.t.Fatal("no line")
	}
	return ""
}

// want receives a line and compares it.
func (c *client) want(line string) {
	c.t.Helper()
	if diff := cmp.Diff(line, c.receive()); diff != "" {
		c.t.Error(diff)
	}
}

func (c *client) silent() {
	c.t.Helper()
	synctest.Wait()
	select {
	case line := <-c.lines:
		c.t.Errorf("unexpected: %s", line)
	default:
	}
}

func (c *client) initialize(name string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"` + name + `","version":"1"}}}`)
	c.receive()
}

// in runs a test in a bubble of its own time.
func in(t *testing.T, tools []string, test func(*testing.T, *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tools...)
		defer w.end()
		test(t, w)
	})
}

func TestHandshakeIsAnsweredAtOnceAndAlwaysTheSame(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) { // no server is ready, and none will be
		c := w.attach()
		c.send(`{"jsonrpc":"2.0","id":"server-discover-probe-1","method":"server/discover","params":{}}`)
		c.want(`{"jsonrpc":"2.0","id":"server-discover-probe-1","error":{"code":-32601,"message":"method \"server/discover\" is not known here"}}`)
		c.send(`{"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"claude-code","version":"2.1"}},"jsonrpc":"2.0","id":0}`)
		c.want(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{}},"serverInfo":{"name":"mcp-funnel","title":"MCP Funnel","version":"1.2.3"}}}`)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		if s := w.hub.Sessions()[0]; s.Client.Name != "claude-code" || s.ProtocolVersion != "2025-06-18" || s.PID != 4711 || s.CWD != "/src" {
			t.Errorf("session %+v", s)
		}
	})
}

func TestC95_ListsOfWhatThereIsNotAreEmpty(t *testing.T) {
	in(t, nil, func(_ *testing.T, w *world) {
		close(w.ready)
		c := w.attach()
		for method, want := range map[string]string{
			"prompts/list": `{"prompts":[]}`, "resources/list": `{"resources":[]}`,
			"resources/templates/list": `{"resourceTemplates":[]}`,
		} {
			c.send(`{"jsonrpc":"2.0","id":1,"method":"` + method + `"}`)
			c.want(`{"jsonrpc":"2.0","id":1,"result":` + want + `}`)
		}
	})
}

func TestFirstListIsHeldUntilReady(t *testing.T) {
	in(t, []string{"a"}, func(_ *testing.T, w *world) {
		c := w.attach()
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		c.silent()
		c.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`) // and holds nothing else
		c.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		close(w.ready)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"s__a","inputSchema":{"type":"object","properties":{}}}]}}`)
	})
}

func TestListChangedIsToldOnceAndOnlyWhenTheListDiffers(t *testing.T) {
	in(t, []string{"a"}, func(_ *testing.T, w *world) {
		close(w.ready)
		c, stranger := w.attach(), w.attach()
		c.initialize("x")
		w.setTools("a") // the same again
		time.Sleep(time.Second)
		c.silent()
		w.setTools("a", "b")
		w.setTools("a", "b", "c")
		time.Sleep(time.Second)
		c.want(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		c.silent()
		stranger.silent() // it never said initialize
	})
}

func TestCallIsRoutedAndCounted(t *testing.T) {
	in(t, []string{"a"}, func(t *testing.T, w *world) {
		c := w.attach()
		c.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"s__a","arguments":{}}}`)
		r := <-w.server.requests
		if string(r.Name) != `"a"` {
			t.Errorf("the server's own name is %s", r.Name)
		}
		reply(r, `{"content":[]}`)
		c.want(`{"jsonrpc":"2.0","id":"x","result":{"content":[]}}`)
		reply(r, `{"again":true}`)
		c.silent()
		if got := w.hub.Sessions()[0].Calls; got != 1 {
			t.Errorf("%d calls", got)
		}
	})
}

func TestUnknownToolAndBrokenCalls(t *testing.T) {
	in(t, []string{"a"}, func(t *testing.T, w *world) {
		close(w.ready)
		c := w.attach()
		for line, code := range map[string]int{
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__b"}}`: -32602,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}`:      -32602,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`:                          -32602,
			`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`:                     -32601,
			`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x"}}`:   -32602,
			`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x"}}`: -32002,
			`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel"}`:                    -32602,
			`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"9"}}`:  -32602,
			`{"jsonrpc":"2.0","id":1}`:                                                -32600,
			`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`:                              -32600,
		} {
			c.send(line)
			var got struct{ Error struct{ Code int } }
			if err := json.Unmarshal([]byte(c.receive()), &got); err != nil || got.Error.Code != code {
				t.Errorf("%s: code %d, want %d", line, got.Error.Code, code)
			}
		}
	})
}

func TestCallOfAToolNotYetKnownWaitsForTheFirstLists(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		c := w.attach()
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__a"}}`)
		c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"s__a"}}`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		c.silent()
		w.setTools("a")
		close(w.ready)
		reply(<-w.server.requests, `{}`)
		c.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		c.silent()
		if len(w.server.requests) != 0 {
			t.Error("the cancelled call ran")
		}
	})
}

func TestC38_BrokenLineGetsOneParseErrorAndTheSessionLives(t *testing.T) {
	in(t, nil, func(_ *testing.T, w *world) {
		c := w.attach()
		c.send(`{bad`)
		c.want(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON: a string expected at byte 1"}}`)
		c.send("")
		c.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

func TestC87_CancelledCallGetsNoReply(t *testing.T) {
	in(t, []string{"a"}, func(t *testing.T, w *world) {
		c := w.attach()
		c.send(`{"jsonrpc":"2.0","id":101,"method":"tools/call","params":{"name":"s__a"}}`)
		r := <-w.server.requests
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":101,"reason":"no"}}`)
		if got := <-w.server.cancelled; got != `{"requestId":101,"reason":"no"}` {
			t.Errorf("the server was told %s", got)
		}
		reply(r, `{"late":true}`)
		c.silent()
		c.send(`{"jsonrpc":"2.0","id":101,"method":"tools/call","params":{"name":"s__a"}}`) // the id is free again
		reply(<-w.server.requests, `{}`)
		c.want(`{"jsonrpc":"2.0","id":101,"result":{}}`)
	})
}

// 5 and "5" are different ids, and both may be running.
func TestC45_NumberAndStringIDsAreDifferent(t *testing.T) {
	in(t, []string{"a"}, func(_ *testing.T, w *world) {
		c := w.attach()
		c.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"s__a"}}`)
		c.send(`{"jsonrpc":"2.0","id":"5","method":"tools/call","params":{"name":"s__a"}}`)
		number, text := <-w.server.requests, <-w.server.requests
		reply(text, `{"of":"text"}`)
		c.want(`{"jsonrpc":"2.0","id":"5","result":{"of":"text"}}`)
		reply(number, `{"of":"number"}`)
		c.want(`{"jsonrpc":"2.0","id":5,"result":{"of":"number"}}`)
	})
}

func TestSecondRequestWithARunningIDIsRefused(t *testing.T) {
	in(t, []string{"a"}, func(t *testing.T, w *world) {
		c := w.attach()
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__a"}}`)
		r := <-w.server.requests
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__a"}}`)
		if got := c.receive(); !strings.Contains(got, "-32600") {
			t.Errorf("got %s", got)
		}
		reply(r, `{}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

// Invariant 4: every request gets exactly one reply, in whatever order.
func TestInvariant4_EveryRequestGetsExactlyOneReply(t *testing.T) {
	in(t, []string{"a"}, func(t *testing.T, w *world) {
		c := w.attach()
		const n = 50
		var requests []*upstream.Request
		for i := range n {
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"s__a"}}`, i))
			requests = append(requests, <-w.server.requests)
		}
		var answering sync.WaitGroup
		for i := range requests {
			r := requests[n-1-i]
			answering.Go(func() { reply(r, string(r.Message.ID.Of(r.Message.Raw))); reply(r, `"twice"`) })
		}
		answering.Wait()
		seen := map[string]bool{}
		for range n {
			var got struct{ ID, Result json.RawMessage }
			if err := json.Unmarshal([]byte(c.receive()), &got); err != nil || !bytes.Equal(got.ID, got.Result) || seen[string(got.ID)] {
				t.Fatalf("reply %s to id %s, seen before: %v", got.Result, got.ID, seen[string(got.ID)])
			}
			seen[string(got.ID)] = true
		}
		c.silent()
	})
}

// Invariant 6: a client that does not read is cut off, alone.
func TestInvariant6_ClientThatDoesNotReadIsCutOffAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		defer w.end()
		ours, theirs := net.Pipe() // unbuffered: nothing is taken unless it is read
		over := make(chan error, 1)
		w.work.Go(func() { over <- w.hub.Serve(w.ctx, "deaf", theirs, bufio.NewReader(theirs), Peer{}) })
		other := w.attach()
		if _, err := ours.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__a"}}` + "\n")); err != nil {
			t.Fatal(err)
		}
		r := <-w.server.requests
		begun := time.Now()
		reply(r, `"x"`)
		if err := <-over; err == nil {
			t.Error("the session ended without saying why")
		}
		if took := time.Since(begun); took < stallTime || took > stallTime+2*byeTime {
			t.Errorf("cut off after %s", took)
		}
		_ = ours.Close()
		other.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		other.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

func TestBacklogOfBytesCutsTheSessionOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		defer w.end()
		ours, theirs := net.Pipe()
		defer func() { _ = ours.Close() }()
		over := make(chan error, 1)
		w.work.Go(func() { over <- w.hub.Serve(w.ctx, "deaf", theirs, bufio.NewReader(theirs), Peer{}) })
		big := `"` + strings.Repeat("x", maxBacklog/2) + `"`
		begun := time.Now()
		for i := range 4 {
			if _, err := fmt.Fprintf(ours, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"s__a"}}`+"\n", i); err != nil {
				t.Fatal(err)
			}
			reply(<-w.server.requests, big)
		}
		if err := <-over; err == nil || !strings.Contains(err.Error(), "does not read") {
			t.Errorf("ended with %v", err)
		}
		if took := time.Since(begun); took >= stallTime {
			t.Errorf("only the time limit cut it off, after %s", took)
		}
	})
}

func TestRunningCallsAreCancelledWhenTheClientGoes(t *testing.T) {
	in(t, []string{"a"}, func(t *testing.T, w *world) {
		c := w.attach()
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__a"}}`)
		<-w.server.requests
		_ = c.conn.Close()
		<-w.server.cancelled
		if err := <-c.over; err != nil {
			t.Errorf("ended with %v", err)
		}
		if got := w.hub.Sessions(); len(got) != 0 {
			t.Errorf("still there: %+v", got)
		}
	})
}

func TestByeReachesTheClientBeforeTheEnd(t *testing.T) {
	in(t, nil, func(_ *testing.T, w *world) {
		c := w.attach()
		c.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		w.hub.Bye("quit")
		w.cancel()
		if got := c.said(); got != `{"mcp-funnel":1,"bye":"quit"}` {
			t.Errorf("the bridge is told %s", got)
		}
		if _, open := <-c.lines; open {
			t.Error("the stream is still open")
		}
	})
}

func TestNamesFitTheClientsLimit(t *testing.T) {
	long := strings.Repeat("n", 90)
	in(t, []string{long}, func(t *testing.T, w *world) {
		close(w.ready)
		lengths := map[string]int{}
		for _, name := range []string{"claude-code", "unknown"} {
			c := w.attach()
			c.initialize(name)
			c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			var got struct {
				Result struct{ Tools []struct{ Name string } }
			}
			if err := json.Unmarshal([]byte(c.receive()), &got); err != nil {
				t.Fatal(err)
			}
			exposed := got.Result.Tools[0].Name
			lengths[name] = len(exposed)
			c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + exposed + `"}}`)
			if r := <-w.server.requests; string(r.Name) != `"`+long+`"` {
				t.Errorf("the server would be called with %s", r.Name)
			} else {
				reply(r, `{}`)
			}
		}
		if lengths["claude-code"] != 93 || lengths["unknown"] != 64-len("mcp__funnel__") {
			t.Errorf("lengths %v", lengths)
		}
	})
}
