package bridge

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"mcp-funnel/core/jsonrpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a bridge between a client and apps that the test plays.
type world struct {
	t *testing.T
	// toBridge and fromBridge are the client's pipes.
	toBridge   *io.PipeWriter
	fromBridge chan string
	// apps yields the app's end of each attachment; a test lets it succeed by
	// sending to admit.
	admit  chan struct{}
	apps   chan *app
	starts chan bool
	// resumes are what each attachment was begun with.
	resumes chan string
	cancel  context.CancelFunc
	done    chan error
}

// app is the app's end of one attachment.
type app struct {
	t     *testing.T
	conn  net.Conn
	lines chan string
}

func newWorld(t *testing.T, noStart bool) *world {
	t.Helper()
	in, toBridge := io.Pipe()
	fromBridge, out := io.Pipe()
	w := &world{
		t: t, toBridge: toBridge, fromBridge: make(chan string, 100),
		admit: make(chan struct{}, 10), apps: make(chan *app, 10), starts: make(chan bool, 100), resumes: make(chan string, 100), done: make(chan error, 1),
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	go readLines(fromBridge, w.fromBridge)
	go func() {
		err := Run(ctx, Options{
			In: in, Out: out, Dial: w.dial, NoStart: noStart, Version: "1", Log: slog.New(slog.DiscardHandler),
			Instructions: func() string { return "as of last time" },
		})
		_ = in.Close()
		_ = out.Close()
		w.done <- err
	}()
	return w
}

func readLines(r io.Reader, lines chan<- string) {
	defer close(lines)
	reader := jsonrpc.NewReader(r, 0)
	for {
		line, err := reader.Read()
		if err != nil {
			return
		}
		lines <- string(line)
	}
}

// dial is the bridge's way to an app.
func (w *world) dial(ctx context.Context, start bool, resume string) (Link, error) {
	w.starts <- start
	select {
	case <-w.admit:
	case <-ctx.Done():
		return Link{}, context.Cause(ctx)
	}
	ours, theirs := net.Pipe()
	a := &app{t: w.t, conn: ours, lines: make(chan string, 100)}
	go readLines(ours, a.lines)
	w.apps <- a
	w.resumes <- resume
	return Link{WriteCloser: theirs, R: bufio.NewReader(theirs)}, nil
}

// end closes the client's side and joins everything.
func (w *world) end() {
	_ = w.toBridge.Close()
	if err := <-w.done; err != nil {
		w.t.Errorf("the bridge ended with %v", err)
	}
	w.cancel()
}

func (w *world) attach() *app {
	w.t.Helper()
	w.admit <- struct{}{}
	return <-w.apps
}

func (w *world) send(line string) {
	w.t.Helper()
	if _, err := w.toBridge.Write([]byte(line + "\n")); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) want(line string) {
	w.t.Helper()
	if diff := cmp.Diff(line, <-w.fromBridge); diff != "" {
		w.t.Error(diff)
	}
}

func (w *world) wantError(id string, text string) {
	w.t.Helper()
	got := <-w.fromBridge
	if !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":`+id+`,"error":`) || !strings.Contains(got, text) {
		w.t.Errorf("got %s, want an error for id %s with %q", got, id, text)
	}
}

func (w *world) silent() {
	w.t.Helper()
	synctest.Wait()
	select {
	case line, open := <-w.fromBridge:
		w.t.Errorf("unexpected: %s (open %v)", line, open)
	default:
	}
}

func (a *app) send(line string) {
	a.t.Helper()
	if _, err := a.conn.Write([]byte(line + "\n")); err != nil {
		a.t.Fatal(err)
	}
}

func (a *app) want(line string) {
	a.t.Helper()
	if diff := cmp.Diff(line, <-a.lines); diff != "" {
		a.t.Error(diff)
	}
}

const (
	greeting = `{"method":"initialize","params":{"protocolVersion":"2025-11-25"},"jsonrpc":"2.0","id":0}`
	welcome  = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}`
	// answer is what the client gets, from the bridge itself.
	answer = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},` +
		`"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{}},` +
		`"serverInfo":{"name":"mcp-funnel","title":"MCP Funnel","version":"1"},"instructions":"as of last time"}}`
	greeted = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	call    = `{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"x"}}`
)

// shakeHands brings client and app through the handshake.
func (w *world) shakeHands() *app {
	w.t.Helper()
	w.send(greeting)
	w.want(answer)
	a := w.attach()
	a.want(greeting)
	a.send(welcome)
	w.send(greeted)
	a.want(greeted)
	return a
}

func in(t *testing.T, test func(*testing.T, *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		defer w.end()
		test(t, w)
	})
}

func TestNothingIsDialledBeforeTheFirstRequest(t *testing.T) {
	in(t, func(_ *testing.T, w *world) {
		time.Sleep(time.Hour)
		w.send(`{"jsonrpc":"2.0","id":"p","method":"server/discover","params":{}}`)
		w.wantError(`"p"`, "-32601")
		synctest.Wait()
		if len(w.starts) != 0 {
			w.t.Error("it dialled")
		}
	})
}

func TestLinesPassUnchangedBothWays(t *testing.T) {
	in(t, func(_ *testing.T, w *world) {
		a := w.shakeHands()
		odd := `{ "id" : "c" ,"jsonrpc":"2.0", "method":"tools/call","params":{"n":9007199254740993,"s":"\u2028<&>"} }`
		w.send(odd)
		a.want(odd)
		reply := `{"result" : {"n":1e400} , "id":"c","jsonrpc":"2.0"}`
		a.send(reply)
		w.want(reply)
		note := `{"jsonrpc":"2.0","method":"notifications/x"}`
		a.send(note)
		w.want(note)
	})
}

func TestInvariant10_BridgeStaysWhenTheAppGoes(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.shakeHands()
		w.send(call)
		a.want(call)
		w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		a.want(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		_ = a.conn.Close()
		w.wantError(`"c"`, "may have run")
		w.silent() // the list is asked again

		b := w.attach()
		b.want(greeting)
		b.send(welcome)
		b.want(greeted)
		b.want(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		b.send(`{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`)
		w.want(`{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`)
		if <-w.starts; !<-w.starts {
			t.Error("after a crash the app is not started again")
		}
	})
}

func TestRequestWithoutAnAppFailsAfterFiveSecondsAndTheSessionGoesOn(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.shakeHands()
		_ = a.conn.Close()
		synctest.Wait()
		begun := time.Now()
		w.send(call)
		w.wantError(`"c"`, "MCP Funnel does not run")
		if took := time.Since(begun); took != patience {
			t.Errorf("it took %s", took)
		}
		w.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
		w.want(`{"jsonrpc":"2.0","id":3,"result":{}}`)
		b := w.attach()
		b.want(greeting)
		b.send(welcome)
		b.want(greeted)
		w.send(call)
		b.want(call) // and the one that was refused did not arrive
	})
}

func TestCancelledWhileHeldGetsNoReplyAndIsNotSent(t *testing.T) {
	in(t, func(_ *testing.T, w *world) {
		w.send(greeting)
		w.want(answer)
		w.send(call)
		w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c"}}`)
		synctest.Wait() // the bridge has seen all three
		a := w.attach()
		a.want(greeting)
		a.send(welcome)
		time.Sleep(time.Minute)
		w.silent()
		synctest.Wait()
		if len(a.lines) != 0 {
			w.t.Errorf("the app got %s", <-a.lines)
		}
	})
}

func TestAnAppThatIsKilledWhileItWritesLeavesNoHalfLine(t *testing.T) {
	in(t, func(_ *testing.T, w *world) {
		a := w.shakeHands()
		w.send(call)
		a.want(call)
		if _, err := io.WriteString(a.conn, `{"jsonrpc":"2.0","id":"c","result":{"content":[{"te`); err != nil {
			w.t.Fatal(err)
		}
		_ = a.conn.Close()
		w.wantError(`"c"`, "may have run")
		w.silent()
	})
}

func TestLinesThatComeTogetherAllPassAndNoneIsHeldBack(t *testing.T) {
	const reply = `{"jsonrpc":"2.0","id":"c","result":{}}`
	const note = `{"jsonrpc":"2.0","method":"notifications/x"}`
	for name, rest := range map[string]string{"nothing": "", "blank lines": "\n\r\n", "half a line": `{"jsonrpc":`} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				a := w.shakeHands()
				write := func(to io.Writer, lines ...string) {
					if _, err := io.WriteString(to, strings.Join(lines, "\n")+"\n"+rest); err != nil {
						t.Fatal(err)
					}
				}
				write(w.toBridge, call, note, "no JSON")
				a.want(call)
				a.want(note)
				w.wantError("null", "not JSON")
				write(a.conn, note, reply, reply) // the second one was not asked for
				w.want(note)
				w.want(reply)
				w.silent()
			})
		})
	}
}

func TestByeQuitWaitsWithoutStartingAnApp(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.shakeHands()
		if !<-w.starts {
			t.Error("the first attachment may start an app")
		}
		a.send(`{"mcp-funnel":1,"bye":"quit"}`)
		_ = a.conn.Close()
		if <-w.starts {
			t.Error("after a quit the app is started again")
		}
		w.silent() // and the client saw nothing of the link message
		b := w.attach()
		b.want(greeting)
	})
}

func TestByeReplaceHoldsRequestsForTheSuccessor(t *testing.T) {
	in(t, func(_ *testing.T, w *world) {
		a := w.shakeHands()
		<-w.starts
		a.send(`{"mcp-funnel":1,"bye":"replace"}`)
		_ = a.conn.Close()
		if <-w.starts {
			w.t.Error("an app is started in the way of the successor")
		}
		synctest.Wait()
		w.send(call)
		time.Sleep(replacePatience - time.Second)
		w.silent()
		if !<-w.starts {
			w.t.Error("no successor came, and no app is started either")
		}
		b := w.attach()
		b.want(greeting)
		b.send(welcome)
		b.want(greeted)
		b.want(call)
	})
}

func TestLossDuringTheHandshakeRepeatsIt(t *testing.T) {
	in(t, func(_ *testing.T, w *world) {
		w.send(greeting)
		w.want(answer)
		a := w.attach()
		a.want(greeting)
		_ = a.conn.Close()
		b := w.attach()
		b.want(greeting)
		b.send(welcome)
		w.send(call)
		b.want(call)
		w.silent()
	})
}

func TestLastRepliesAreCarriedAfterEOF(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		a := w.shakeHands()
		w.send(call)
		a.want(call)
		_ = w.toBridge.Close()
		a.send(`{"jsonrpc":"2.0","id":"c","result":{}}`)
		w.want(`{"jsonrpc":"2.0","id":"c","result":{}}`)
		w.end()
	})
}

func TestEndsWithinATenthOfASecondOfEOF(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		a := w.shakeHands()
		w.send(call)
		a.want(call)
		begun := time.Now()
		w.end()
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		if _, open := <-a.lines; open {
			t.Error("the app's connection is still open")
		}
	})
}

// A client that does not read, an app that does not, and a signal: the bridge is
// gone all the same. In real time, because waiting for a mutex holds up a bubble.
func TestSignalEndsAStuckBridge(t *testing.T) {
	ours, theirs := net.Pipe()
	in, toBridge := io.Pipe()
	stuck, out := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var work sync.WaitGroup
	ended := make(chan struct{})
	work.Go(func() {
		defer close(ended)
		_ = Run(ctx, Options{
			In: in, Out: out, Log: slog.New(slog.DiscardHandler),
			Dial: func(context.Context, bool, string) (Link, error) {
				return Link{WriteCloser: theirs, R: bufio.NewReader(theirs)}, nil
			},
		})
	})
	client := bufio.NewReader(stuck)
	work.Go(func() { _, _ = io.WriteString(toBridge, greeting+"\n"+call+"\n"+call+"\n") })
	if _, err := client.ReadSlice('\n'); err != nil { // and no more than that
		t.Fatal(err)
	}
	if _, err := bufio.NewReaderSize(ours, 16).ReadSlice('\n'); err == nil {
		t.Fatal("the whole greeting fitted into a small buffer")
	}
	time.Sleep(50 * time.Millisecond) // the bridge is stuck in writing to the app now
	cancel()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("it is still there")
	}
	_ = stuck.Close() // the process would end here
	_ = in.Close()
	work.Wait()
}

func TestDialThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, toBridge := io.Pipe()
		attempts, starts := 0, 0
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = Run(ctx, Options{
				In: in, Out: io.Discard, Log: slog.New(slog.DiscardHandler),
				Dial: func(ctx context.Context, start bool, _ string) (Link, error) {
					attempts++
					if start {
						starts++
						return Link{}, errors.New("it cannot be started")
					}
					<-ctx.Done() // nobody else starts one
					return Link{}, context.Cause(ctx)
				},
			})
		}()
		_, _ = io.WriteString(toBridge, greeting+"\n")
		time.Sleep(10 * time.Minute)
		cancel()
		<-done
		_ = in.Close()
		// 1 s, 2 s, 4 s, 8 s, 16 s, then every 30 s.
		if starts < 20 || starts > 25 || attempts < 2*starts-1 {
			t.Errorf("%d starts in %d attempts", starts, attempts)
		}
	})
}
