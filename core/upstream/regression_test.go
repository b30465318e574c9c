//go:build linux

package upstream

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/config"
	"mcp-funnel/core/environ"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

// A server that closes its input and goes on running is no server any more.
func TestClosedStdinIsALoss(t *testing.T) {
	r := newRig(t, "ok")
	first := r.connected()
	a := newInbox()
	r.upstream.Forward(request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shut"}}`, a))
	a.wait(t)
	time.Sleep(100 * time.Millisecond) // it has closed its input
	r.upstream.Forward(request(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`, a))
	if reply := a.wait(t); !strings.Contains(reply, `"text":"ok"`) { // of the new process: the old one never got it
		t.Errorf("reply %s", reply)
	}
	r.until("connected again", func(s status.Server) bool { return s.State == status.Connected && s.PID != first.PID })
}

// A call in the moment between a server's death and our noticing it reaches nobody: it
// waits for the next process, and runs once.
func TestCallToADeadServerGoesToItsSuccessor(t *testing.T) {
	r := newRig(t, "ok", func(s *config.Server) { s.Reconnect.MaxAttempts = 1000 })
	for i := range 15 {
		pid := r.connected().PID
		process, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Kill(); err != nil {
			t.Fatal(err)
		}
		for { // until nobody can read its input any more
			stat, ok := readStat(pid)
			threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
			if !ok || stat.zombie && err == nil && len(threads) == 1 {
				break
			}
		}
		a := newInbox()
		r.upstream.Forward(request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, a))
		if reply := a.wait(t); !strings.Contains(reply, `"text":"ok"`) {
			t.Fatalf("call %d: %s", i, reply)
		}
	}
	r.stop()
	content, err := os.ReadFile(r.notes)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(content), "call "); n != 15 {
		t.Errorf("15 calls ran %d times", n)
	}
}

// secretRig runs a server that says its token in a place where it does not belong.
func secretRig(t *testing.T, mode, token string) *rig {
	t.Helper()
	return newRig(t, mode, func(e *config.Server) {
		e.Env = append(e.Env, "API_TOKEN="+token)
		e.Secrets = []string{token}
	})
}

func TestC103_SecretInTheErrorOfAServerIsMasked(t *testing.T) {
	r := secretRig(t, "leak-error", "sk-secret-123456")
	s := r.until("failed", func(s status.Server) bool { return s.LastError != "" })
	if strings.Contains(s.LastError, "sk-secret") || !strings.Contains(s.LastError, "Incorrect API key provided: ***") {
		t.Errorf("on the board: %s", s.LastError)
	}
	if len(s.LastError) > maxErrorText+10 || strings.ContainsAny(s.LastError, "\n\x1b") {
		t.Errorf("%d bytes: %q", len(s.LastError), s.LastError)
	}
	events, _, _, err := r.events.Next(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if strings.Contains(e.Error+e.Reason, "sk-secret") {
			t.Errorf("in event %s: %s", e.Name, e.Error)
		}
	}
}

func TestC103_SecretOfSeveralLinesIsMaskedOnEachOfThem(t *testing.T) {
	r := secretRig(t, "leak-stderr", "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END KEY-----")
	r.connected()
	var l *link
	for l == nil { // it is in use a moment after it is shown
		r.upstream.mu.Lock()
		l = r.upstream.link
		r.upstream.mu.Unlock()
	}
	for deadline := time.Now().Add(10 * time.Second); l.transport.StderrTail() == ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it wrote nothing")
		}
	}
	if tail := l.transport.StderrTail(); strings.Contains(tail, "MIIEvQIBADANBgkqhkiG") {
		t.Errorf("tail %q", tail)
	}
}

// launcher launches with an environment and a log of the test's own.
func launcher(t *testing.T, log io.WriteCloser) *Launcher {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	dir := t.TempDir()
	return &Launcher{
		Environment: func(context.Context) environ.Env { return environ.New(os.Environ()) }, Home: dir,
		OpenLog: func(string) io.WriteCloser { return log }, Custody: OpenCustody(dir+"/children.json", quiet), Log: quiet,
	}
}

func TestC103_NoHalfOfASecretIsLeftWhereALineIsCut(t *testing.T) {
	var log lockedText
	token := "sk-secret-123456"
	transport, err := launcher(t, &log).Open(config.Server{
		Name: "s", Type: config.Stdio, Command: os.Args[0],
		Env: []string{childMode + "=leak-stdout", "API_TOKEN=" + token, "GORACE=atexit_sleep_ms=0"}, Secrets: []string{token},
	})(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	transport.Start(newLink("s", 0))
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(log.String(), "skipped"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it wrote nothing")
		}
	}
	transport.Close()
	if strings.Contains(log.String(), "sk-") {
		t.Errorf("log: %s", log.String())
	}
}

func TestC103_AShortSecretDoesNotUncoverALongOne(t *testing.T) {
	path := t.TempDir() + "/.env"
	if err := os.WriteFile(path, []byte("USER_PART=admin\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, mask, err := launcher(t, discard{}).environmentOf(context.Background(),
		config.Server{EnvFile: path, Secrets: []string{"admin:s3cr3tpassword"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := mask("login admin:s3cr3tpassword"); got != "login ***" {
		t.Errorf("masked: %s", got)
	}
}

// httpRig runs an upstream on an HTTP peer.
func httpRig(t *testing.T, url string, change ...func(*config.Server)) (*Upstream, *status.Board) {
	t.Helper()
	board := status.NewBoard()
	l := launcher(t, discard{})
	l.HTTP = NewHTTPClient()
	t.Cleanup(l.HTTP.CloseIdleConnections)
	entry := config.Server{
		Name: "api", Type: config.HTTP, URL: url, Enabled: true, StartupTimeout: 10 * time.Second,
		Reconnect: config.Reconnect{
			Enabled: true, MaxAttempts: 10, InitialDelay: 100 * time.Millisecond, BackoffMultiplier: 1,
			MaxDelay: 100 * time.Millisecond, SlowProbeInterval: time.Second, StableAfter: time.Minute,
		},
	}
	for _, c := range change {
		c(&entry)
	}
	u := New(entry, true, Deps{
		Open: l.Open, Self: mcp.Implementation{Name: "t", Version: "1"}, Board: board, Events: status.NewEvents(100, nil),
		Remembered: func(config.Server) Lists { return Lists{} }, News: func(string, jsonrpc.Message) {},
		Wanted: func(string) ([]string, string) { return nil, "" }, Changed: func() {}, Log: l.Log, Random: half,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = u.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	for after := uint64(0); ; {
		waiting, stop := context.WithTimeout(ctx, 10*time.Second)
		snap, err := board.Wait(waiting, after)
		stop()
		if err != nil {
			t.Fatal("not connected")
		}
		if s, ok := snap.Server("api"); ok && s.State == status.Connected {
			return u, board
		}
		after = snap.Generation
	}
}

// toolPeer is an HTTP server that answers tools/list, and calls with call.
func toolPeer(t *testing.T, call func(w http.ResponseWriter, m jsonrpc.Message)) *httpPeer {
	t.Helper()
	return newHTTPPeer(t, func(p *httpPeer) {
		p.answer = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			if m.MethodName() == "tools/call" && call != nil {
				call(w, m)
				return
			}
			writeJSON(w, http.StatusOK, string(jsonrpc.NewResult(m.ID.Of(m.Raw), []byte(`{"tools":[]}`))))
		}
	})
}

// closedTransport cannot be written to, and says why a moment later.
type closedTransport struct {
	Transport
	done chan struct{}
}

func (c *closedTransport) Send(jsonrpc.Message) (int, error) { return 0, jsonrpc.ErrClosed }
func (c *closedTransport) Done() <-chan struct{}             { return c.done }
func (c *closedTransport) Err() error {
	return &ExitError{Code: 1, Cause: "exit code 1", Stderr: "no key"}
}

// A server may end before the handshake is even sent; its last words are what counts.
func TestServerThatEndsBeforeTheHandshakeIsSentIsExplained(t *testing.T) {
	transport := &closedTransport{done: make(chan struct{})}
	l := newLink("s", 0)
	l.transport = transport
	time.AfterFunc(20*time.Millisecond, func() { close(transport.done) })
	_, err := l.greet(context.Background(), mcp.Implementation{})
	if err == nil || err.Error() != "the process ended: exit code 1; its last words: no key" {
		t.Errorf("error %v", err)
	}
}

func TestC77_RefusalOfOneCallIsThatCallsErrorAlone(t *testing.T) {
	peer := toolPeer(t, func(w http.ResponseWriter, _ jsonrpc.Message) {
		http.Error(w, "token expired", http.StatusUnauthorized)
	})
	u, board := httpRig(t, peer.URL)
	a := newInbox()
	u.Forward(request(t, callX, a))
	reply := a.wait(t)
	if strings.Contains(reply, "lost") || !strings.Contains(reply, "still connected") || !strings.Contains(reply, "401") {
		t.Errorf("reply %s", reply)
	}
	time.Sleep(100 * time.Millisecond)
	if s, _ := board.Snapshot().Server("api"); s.State != status.Connected || s.Restarts != 0 {
		t.Errorf("server %+v", s)
	}
}

// A call that met a dead server was not sent: it waits for the server, and says so.
func TestCallThatWasNotSentWaitsForTheServer(t *testing.T) {
	peer := toolPeer(t, nil)
	u, _ := httpRig(t, peer.URL)
	peer.CloseClientConnections()
	peer.Close()
	time.Sleep(200 * time.Millisecond) // the idle connection is known to be closed
	a := newInbox()
	begun := time.Now()
	u.Forward(request(t, callX, a))
	reply := a.wait(t)
	if strings.Contains(reply, "may have run") || !strings.Contains(reply, "was not called") || !strings.Contains(reply, "next try") && !strings.Contains(reply, "tried now") {
		t.Errorf("reply %s", reply)
	}
	if took := time.Since(begun); took < parkTime-time.Second || took > parkTime+2*time.Second {
		t.Errorf("after %s", took)
	}
}

// A restarted HTTP server does not know the session: the client sees a normal result.
func TestC48_CallThatMeetsAForgottenSessionSucceeds(t *testing.T) {
	calls := 0
	peer := toolPeer(t, func(w http.ResponseWriter, m jsonrpc.Message) {
		if calls++; calls == 1 {
			http.Error(w, "session not found", http.StatusNotFound)
			return
		}
		writeJSON(w, http.StatusOK, string(jsonrpc.NewResult(m.ID.Of(m.Raw), []byte(`"fine"`))))
	})
	u, _ := httpRig(t, peer.URL)
	a := newInbox()
	u.Forward(request(t, callX, a))
	if reply := a.wait(t); reply != `{"jsonrpc":"2.0","id":1,"result":"fine"}` {
		t.Errorf("reply %s", reply)
	}
}

func TestCallThatRunsWhileItsServerIsSwitchedOffIsToldSo(t *testing.T) {
	r := newRig(t, "ok")
	r.connected()
	a := newInbox()
	r.upstream.Forward(request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hang"}}`, a))
	r.noted("call")
	r.upstream.SetEnabled(false)
	if reply := a.wait(t); !strings.Contains(reply, "switched off") || strings.Contains(reply, "being reconnected") {
		t.Errorf("reply %s", reply)
	}
}

func TestChangedReconnectOfASickServerCountsAtOnce(t *testing.T) {
	var entry config.Server
	r := newRig(t, "refuse", func(e *config.Server) {
		e.Reconnect.SlowProbeInterval, e.Reconnect.MaxAttempts = time.Hour, 1
		entry = *e
	})
	r.until("slow probe", func(s status.Server) bool { return s.State == status.SlowProbe })
	entry.Reconnect.SlowProbeInterval, entry.Reconnect.MaxAttempts = 50*time.Millisecond, 2
	r.upstream.Apply(entry)
	r.until("probed by the new interval", func(s status.Server) bool {
		return s.State == status.SlowProbe && s.MaxAttempts == 2 && s.Attempt >= 2
	})
}

func TestInvalidIsAnnouncedOncePerProblem(t *testing.T) {
	var entry config.Server
	r := newRig(t, "ok", func(e *config.Server) {
		e.Problem = &config.Issue{Message: "wrong"}
		entry = *e
	})
	r.until("invalid", func(s status.Server) bool { return s.State == status.Invalid })
	for range 3 {
		same := *entry.Problem
		entry.Problem = &same
		r.upstream.Apply(entry)
		time.Sleep(30 * time.Millisecond)
	}
	entry.Problem = &config.Issue{Message: "wrong in another way"}
	r.upstream.Apply(entry)
	r.until("the other problem", func(s status.Server) bool { return strings.Contains(s.LastError, "another way") })
	r.stop() // the event follows what is shown
	events, _, _, err := r.events.Next(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	invalid := 0
	for _, e := range events {
		if e.Name == status.EventInvalid {
			invalid++
		}
	}
	if invalid != 2 {
		t.Errorf("%d events for two problems", invalid)
	}
}

func TestUpstreamWhoseLifeIsOverStartsNothing(t *testing.T) {
	opened := false
	u := New(config.Server{Name: "s", Type: config.Stdio, Enabled: true, StartupTimeout: time.Minute}, true, Deps{
		Board: status.NewBoard(), Events: status.NewEvents(100, nil), Changed: func() {}, Log: slog.New(slog.DiscardHandler), Random: half,
		Remembered: func(config.Server) Lists { return Lists{} }, News: func(string, jsonrpc.Message) {},
		Wanted: func(string) ([]string, string) { return nil, "" },
		Open: func(config.Server) Opener {
			return func(context.Context) (Transport, error) { opened = true; return nil, errStopped }
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = u.Run(ctx)
	if opened {
		t.Error("it opened a transport")
	}
	select {
	case <-u.Settled():
	default:
		t.Error("it is not settled, and would hold the first lists")
	}
}

// Invariant 3, for a descendant in a session of its own.
func TestInvariant3_DescendantThatLeftTheGroupIsEnded(t *testing.T) {
	r := newRig(t, "setsid")
	r.connected()
	pid, err := strconv.Atoi(r.noted(""))
	if err != nil {
		t.Fatal(err)
	}
	r.stop()
	if !processGone(pid) {
		t.Errorf("descendant %d lives on", pid)
	}
}

// Requests that waited reach the server in the order in which they came.
func TestParkedRequestsKeepTheirOrder(t *testing.T) {
	r := newRig(t, "ok", func(e *config.Server) { e.Command = "no-such-program" })
	r.until("tried", func(s status.Server) bool { return s.LastError != "" })
	a := newInbox()
	for i := range 20 {
		r.upstream.Forward(request(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x"}}`, i), a))
	}
	r.upstream.mu.Lock()
	defer r.upstream.mu.Unlock()
	for i, parked := range r.upstream.parked {
		if got := string(parked.Message.ID.Of(parked.Message.Raw)); got != strconv.Itoa(i) {
			t.Fatalf("request %s stands at place %d", got, i)
		}
	}
	if len(r.upstream.parked) != 20 {
		t.Errorf("%d requests wait", len(r.upstream.parked))
	}
}

func TestToolsThatAreNoJSONAreLeftOut(t *testing.T) {
	u := &Upstream{name: "s", deps: Deps{Log: slog.New(slog.DiscardHandler)}}
	good := []byte(`{"name":"ok"}`)
	tools := u.sound(Lists{Tools: [][]byte{
		[]byte(`{"name":"bad","description":"C:\path"}`), []byte("{\"name\":\"bad\",\"description\":\"a\tb\"}"), good,
		[]byte(`{"name":"bad","x":01}`), []byte("{\"name\":\"bad\",\"description\":\"\xff\"}"),
	}}).Tools
	if len(tools) != 1 || string(tools[0]) != string(good) {
		t.Errorf("kept %s", tools)
	}
}
