package upstream

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/config"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

// fakeTransport is a server inside the test, without I/O, for tests with a fake clock.
type fakeTransport struct {
	began time.Time
	done  chan struct{}

	mu   sync.Mutex
	sink Sink
	// answers makes the reply to a request; nil leaves it without one.
	answers func(f *fakeTransport, m jsonrpc.Message) []byte
	// pings are when pings came, counted from the start.
	pings  []time.Duration
	closed bool
}

func newFakeTransport(answers func(*fakeTransport, jsonrpc.Message) []byte) *fakeTransport {
	return &fakeTransport{began: time.Now(), done: make(chan struct{}), answers: answers}
}

// healthy answers everything.
func healthy(_ *fakeTransport, m jsonrpc.Message) []byte {
	id := m.ID.Of(m.Raw)
	switch m.MethodName() {
	case "initialize":
		return jsonrpc.NewResult(id, []byte(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"f","version":"1"}}`))
	default:
		return jsonrpc.NewResult(id, []byte(`{}`))
	}
}

// mute answers the handshake and nothing else.
func mute(f *fakeTransport, m jsonrpc.Message) []byte {
	if m.MethodName() == "initialize" {
		return healthy(f, m)
	}
	return nil
}

func (f *fakeTransport) Start(sink Sink) { f.sink = sink }

func (f *fakeTransport) Unsent(int) bool { return false }

func (f *fakeTransport) Send(m jsonrpc.Message) (place int, err error) {
	if m.Kind != jsonrpc.Request {
		return 0, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.MethodName() == string(mcp.MethodPing) {
		f.pings = append(f.pings, time.Since(f.began))
	}
	if reply := f.answers(f, m); reply != nil {
		f.reply(reply)
	}
	return 0, nil
}

// reply delivers a reply on a goroutine of its own, as transports do.
func (f *fakeTransport) reply(raw []byte) {
	go func() {
		m, err := jsonrpc.Parse(raw)
		if err != nil {
			panic(err)
		}
		f.sink.Receive(m, 0)
	}()
}

func (f *fakeTransport) asked() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.pings)
}

func (f *fakeTransport) Done() <-chan struct{}   { return f.done }
func (f *fakeTransport) Err() error              { return errStopped }
func (f *fakeTransport) Negotiated(string)       {}
func (f *fakeTransport) Mask(text string) string { return text }
func (f *fakeTransport) PID() int                { return 0 }
func (f *fakeTransport) StderrTail() string      { return "" }

func (f *fakeTransport) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

func (f *fakeTransport) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// fakeRig runs an upstream over fake transports, one for each attempt, in a bubble.
type fakeRig struct {
	upstream *Upstream
	board    *status.Board
	opened   []*fakeTransport
}

func newFakeRig(t *testing.T, ping time.Duration, answers ...func(*fakeTransport, jsonrpc.Message) []byte) *fakeRig {
	t.Helper()
	return newFakeRigOf(t, func(s *config.Server) { s.PingInterval = ping }, answers...)
}

func newFakeRigOf(t *testing.T, change func(*config.Server), answers ...func(*fakeTransport, jsonrpc.Message) []byte) *fakeRig {
	t.Helper()
	r := &fakeRig{board: status.NewBoard()}
	entry := config.Server{
		Name: "s", Type: config.HTTP, Enabled: true, StartupTimeout: time.Minute,
		Reconnect: config.Reconnect{
			Enabled: true, MaxAttempts: 3, InitialDelay: time.Second, BackoffMultiplier: 2, MaxDelay: time.Minute,
			SlowProbeInterval: time.Minute, StableAfter: time.Minute,
		},
	}
	change(&entry)
	r.upstream = New(entry, true, Deps{
		Open: func(config.Server) Opener {
			return func(context.Context) (Transport, error) {
				f := newFakeTransport(answers[min(len(r.opened), len(answers)-1)])
				r.opened = append(r.opened, f)
				return f, nil
			}
		},
		Self: mcp.Implementation{Name: "t", Version: "1"}, Board: r.board, Events: status.NewEvents(100, nil),
		Remembered: func(config.Server) Lists { return Lists{} }, News: func(string, jsonrpc.Message) {},
		Wanted: func(string) ([]string, string) { return nil, "" }, Changed: func() {},
		Log: slog.New(slog.DiscardHandler), Random: half,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.upstream.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return r
}

func (r *fakeRig) server() status.Server {
	s, _ := r.board.Snapshot().Server("s")
	return s
}

// A connection that is dead without a word is found out by pings, within 90 s, and a
// new one is made.
func TestC80_SilentConnectionIsLostWithin90Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRig(t, 30*time.Second, mute, healthy)
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if s := r.server(); s.State != status.Connected {
			t.Fatalf("lost before the third miss: %s, %s", s.State, s.LastError)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		s := r.server()
		if s.State != status.Reconnecting && len(r.opened) != 2 {
			t.Fatalf("after 61 s it is %s with %d connections", s.State, len(r.opened))
		}
		want := []time.Duration{30 * time.Second, 40 * time.Second, 50 * time.Second}
		if got := r.opened[0].asked(); !slices.Equal(got, want) {
			t.Errorf("pings at %v, want %v", got, want)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if s := r.server(); s.State != status.Connected || len(r.opened) != 2 || !r.opened[0].closed {
			t.Errorf("not connected again: %s, %d connections", s.State, len(r.opened))
		}
	})
}

// One miss is no loss, and an error answer is a sign of life.
func TestPingMissesCountOnlyInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := newFakeRig(t, 30*time.Second, func(f *fakeTransport, m jsonrpc.Message) []byte {
			if m.MethodName() != string(mcp.MethodPing) {
				return healthy(f, m)
			}
			if asked++; asked%3 != 0 {
				return nil
			}
			return jsonrpc.NewError(m.ID.Of(m.Raw), &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "what is a ping?"})
		})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := r.server(); s.State != status.Connected || len(r.opened) != 1 || asked < 20 {
			t.Errorf("%s with %d connections after %d pings: %s", s.State, len(r.opened), asked, s.LastError)
		}
	})
}

// A server that is busy with a call is not judged, however long that takes.
func TestC75_NoVerdictWhileARequestIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var call []byte
		r := newFakeRig(t, 30*time.Second, func(f *fakeTransport, m jsonrpc.Message) []byte {
			if m.MethodName() == "tools/call" {
				call = jsonrpc.NewResult(m.ID.Of(m.Raw), []byte(`{"content":[]}`))
			}
			return mute(f, m)
		})
		replies := newInbox()
		// The first ping is on its way when the call begins.
		time.Sleep(35 * time.Second)
		r.upstream.Forward(request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, replies))
		time.Sleep(120 * time.Second)
		synctest.Wait()
		if s := r.server(); s.State != status.Connected || len(r.opened) != 1 {
			t.Fatalf("%s with %d connections: %s", s.State, len(r.opened), s.LastError)
		}
		if n := len(r.opened[0].asked()); n != 1 {
			t.Errorf("%d pings, want the one before the call", n)
		}
		r.opened[0].reply(call)
		synctest.Wait()
		select {
		case <-replies.replies:
		default:
			t.Error("the call got no reply")
		}
	})
}

// A connection that talks is not asked.
func TestTalkingConnectionIsNotPinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRig(t, 30*time.Second, healthy)
		for range 60 {
			time.Sleep(10 * time.Second)
			r.opened[0].reply([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`))
			synctest.Wait()
		}
		if asked := r.opened[0].asked(); len(asked) != 0 {
			t.Errorf("pings at %v", asked)
		}
	})
}

// Without an interval nobody is asked, which is how processes are treated.
func TestNoPingWithoutAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRig(t, 0, mute)
		r.upstream.Check()
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := r.server(); s.State != status.Connected || len(r.opened[0].asked()) != 0 {
			t.Errorf("%s, pings at %v", s.State, r.opened[0].asked())
		}
	})
}

// Check asks at once, because the machine slept; and tries what is away at once.
func TestCheckAsksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRig(t, 30*time.Second, healthy)
		time.Sleep(7 * time.Second)
		r.upstream.Check()
		synctest.Wait()
		if got := r.opened[0].asked(); !slices.Equal(got, []time.Duration{7 * time.Second}) {
			t.Errorf("pings at %v", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		refusing := func(_ *fakeTransport, m jsonrpc.Message) []byte {
			return jsonrpc.NewError(m.ID.Of(m.Raw), &jsonrpc.Error{Code: jsonrpc.CodeServerError, Message: "not today"})
		}
		r := newFakeRig(t, 30*time.Second, refusing)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := r.server(); s.State != status.SlowProbe {
			t.Fatalf("state %s", s.State)
		}
		time.Sleep(10 * time.Second) // clear of a probe
		synctest.Wait()
		before := len(r.opened)
		r.upstream.Check()
		synctest.Wait()
		if len(r.opened) != before+1 {
			t.Error("a server in slow probe was not tried")
		}
	})
}

// A proxy that answers for a server that is gone is found out too.
func TestGatewayErrorRaisesDoubt(t *testing.T) {
	for code, want := range map[int]bool{502: true, 503: true, 504: true, 500: false, 404: false, 429: false} {
		l := newLink("s", 0)
		l.doubtAfter(&statusError{status: code})
		if got := len(l.doubt) == 1; got != want {
			t.Errorf("status %d raises doubt: %v", code, got)
		}
		if got := unanswered(&statusError{status: code}); got != want {
			t.Errorf("a ping answered by status %d counts as missed: %v", code, got)
		}
	}
}
