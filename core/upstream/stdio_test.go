//go:build linux

package upstream

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcp-funnel/core/config"
	"mcp-funnel/core/status"
)

// And the client gets the bytes of the server, under its own id.
func TestInvariant5_ResultsComeBackUnchanged(t *testing.T) {
	r := newRig(t, "ok")
	s := r.connected()
	if s.PID == 0 || s.Tools != 1 || s.ProtocolVersion != "2025-06-18" || s.Stale {
		t.Errorf("status %+v", s)
	}
	a := newInbox()
	r.upstream.Forward(request(t, `{"method":"tools/call","params":{"name":"x"},"jsonrpc":"2.0","id":"a\u0062c"}`, a))
	want := `{"jsonrpc":"2.0","id":"a\u0062c","result":{"content":[{"type":"text","text":"ok"}], "big":9007199254740993}}`
	if got := a.wait(t); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Invariant 5: but for id, name and progress token the server gets the very bytes.
func TestInvariant5_OnlyIDNameAndTokenAreChanged(t *testing.T) {
	r := newRig(t, "ok")
	r.connected()
	a := newInbox()
	req := request(t, `{"jsonrpc":"2.0","params":{"_meta":{"progressToken":"p1","claudecode/toolUseId":"u"},"name":"line",  "arguments":{"n":1e400,"id":9007199254740993}},"id":7,"method":"tools/call"}`, a)
	req.Name = []byte(`"line"`)
	r.upstream.Forward(req)
	reply := a.wait(t)
	text := strings.TrimSuffix(strings.TrimPrefix(reply, `{"jsonrpc":"2.0","id":7,"result":`), "}")
	got, err := strconv.Unquote(text)
	if err != nil {
		t.Fatalf("%v in %s", err, reply)
	}
	id := strings.TrimSuffix(strings.TrimPrefix(r.noted("call "), "call "), " line")
	want := `{"jsonrpc":"2.0","params":{"_meta":{"progressToken":` + id + `,"claudecode/toolUseId":"u"},"name":"line",  "arguments":{"n":1e400,"id":9007199254740993}},"id":` + id + `,"method":"tools/call"}`
	if got != want {
		t.Errorf("the server got\n%s\nwant\n%s", got, want)
	}
}

// A request that crashes its server is answered at once, is not sent again, and the
// next one finds the server back.
func TestC84_CallThatCrashesItsServer(t *testing.T) {
	r := newRig(t, "die-on-call")
	first := r.connected()
	a := newInbox()
	begun := time.Now()
	r.upstream.Forward(request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, a))
	reply := a.wait(t)
	if !strings.Contains(reply, `"error"`) || !strings.Contains(reply, "may have run") || !strings.Contains(reply, "exit code 7") {
		t.Errorf("reply %s", reply)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("the error took %s", took)
	}
	second := r.until("connected again", func(s status.Server) bool { return s.State == status.Connected && s.PID != first.PID })
	if second.Restarts != 1 {
		t.Errorf("restarts %d", second.Restarts)
	}
	content, err := os.ReadFile(r.notes)
	if err != nil || strings.Count(string(content), "call ") != 1 {
		t.Errorf("the server saw %q", content)
	}
}

func TestExitCodeAndLastWordsAreTold(t *testing.T) {
	r := newRig(t, "exit-at-once")
	s := r.until("slow probe", func(s status.Server) bool { return s.State == status.SlowProbe })
	if !strings.Contains(s.LastError, "exit code 3") || !strings.Contains(s.LastError, "boom: missing API key") {
		t.Errorf("last error %q", s.LastError)
	}
	if !strings.Contains(s.StderrTail, "boom") {
		t.Errorf("stderr tail %q", s.StderrTail)
	}
}

func TestMissingCommandIsRetriedAndNamesThePath(t *testing.T) {
	r := newRig(t, "ok", func(s *config.Server) { s.Command = "no-such-program" })
	s := r.until("slow probe", func(s status.Server) bool { return s.State == status.SlowProbe })
	path, _, _ := strings.Cut(os.Getenv("PATH"), ":")
	if !strings.Contains(s.LastError, "no-such-program") || !strings.Contains(s.LastError, path) {
		t.Errorf("last error %q", s.LastError)
	}
}

// Servers that (a) end on EOF, (b) ignore it and obey SIGTERM, (c) ignore both.
func TestC61_StopLadder(t *testing.T) {
	for mode, want := range map[string]struct {
		notes    string
		min, max time.Duration
	}{
		"note-term":  {notes: "EOF\n", max: eofGrace},
		"ignore-eof": {notes: "TERM\n", min: eofGrace, max: eofGrace + termGrace},
		"ignore-all": {notes: "TERM\n", min: eofGrace + termGrace, max: 9 * time.Second},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, mode)
			pid := r.connected().PID
			begun := time.Now()
			r.stop()
			took := time.Since(begun)
			if took < want.min || took > want.max {
				t.Errorf("stopping took %s, want %s to %s", took, want.min, want.max)
			}
			if content, _ := os.ReadFile(r.notes); string(content) != want.notes {
				t.Errorf("the server noted %q, want %q", content, want.notes)
			}
			if !processGone(pid) {
				t.Error("it is still there")
			}
		})
	}
}

func TestC61_TenStubbornServersStopSideBySide(t *testing.T) {
	var rigs []*rig
	for range 10 {
		rigs = append(rigs, newRig(t, "ignore-all"))
	}
	for _, r := range rigs {
		r.connected()
	}
	begun := time.Now()
	var stopping sync.WaitGroup
	for _, r := range rigs {
		stopping.Go(r.stop)
	}
	stopping.Wait()
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
}

// A server that cannot be greeted, and one that dies: over many attempts there is
// never more than one of it, and no zombie.
func TestC64_NeverMoreThanOneTreeAndNoZombies(t *testing.T) {
	for _, mode := range []string{"refuse", "exit-at-once"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, mode, func(s *config.Server) {
				s.Reconnect.MaxAttempts = 1
				s.Reconnect.SlowProbeInterval = 10 * time.Millisecond
			})
			deadline := time.Now().Add(time.Minute)
			for {
				s, _ := r.board.Snapshot().Server("s")
				if alive, zombies := ourChildren(r.custody); alive > 1 || zombies > 1 {
					t.Fatalf("%d living processes and %d zombies at once", alive, zombies)
				}
				if s.State == status.SlowProbe && s.Attempt >= 20 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("no 20 attempts: %+v", s)
				}
				time.Sleep(2 * time.Millisecond)
			}
			r.stop()
			if alive, zombies := ourChildren(r.custody); alive+zombies > 0 {
				t.Errorf("%d processes and %d zombies are left", alive, zombies)
			}
		})
	}
}

// ourChildren counts the children of this process that the custody knows, living
// ones and zombies. One being reaped is a zombie for a moment.
func ourChildren(c *Custody) (alive, zombies int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, entry := range c.children {
		if stat, ok := readStat(entry.PID); ok && entry.PID != 0 {
			if stat.zombie {
				zombies++
			} else {
				alive++
			}
		}
	}
	return alive, zombies
}

func TestWholeGroupIsEnded(t *testing.T) {
	r := newRig(t, "grandchild")
	first := r.connected()
	grandchild, err := strconv.Atoi(r.noted(""))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("when the leader is killed", func(t *testing.T) {
		if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.until("connected again", func(s status.Server) bool { return s.State == status.Connected && s.PID != first.PID })
		if !processGone(grandchild) {
			t.Error("the grandchild of the killed server lives beside the new one")
		}
	})
}

func TestLossIsNoticedAtOnceAlthoughAGrandchildHoldsThePipe(t *testing.T) {
	r := newRig(t, "grandchild")
	first := r.connected()
	a := newInbox()
	r.upstream.Forward(request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hang"}}`, a))
	r.noted("call ")
	begun := time.Now()
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if reply := a.wait(t); !strings.Contains(reply, "signal: killed") {
		t.Errorf("reply %s", reply)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("noticed after %s", took)
	}
}

// What a killed app left is ended by the next one: by its tag, also a descendant
// that left the group, and before a new process of that server starts.
func TestLeftoversOfAKilledAppAreEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "children.json")
	log := slog.New(slog.DiscardHandler)
	dead := OpenCustody(path, log)
	var pids []int
	for _, args := range [][]string{{"600"}, {"601"}} {
		cmd := exec.Command("/bin/sleep", args...)
		cmd.Env = os.Environ()
		p, err := dead.start(cmd, "s")
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, p.pid)
		go func() { <-p.exited; p.reap() }() // the dead app's parent would
	}
	stranger := exec.Command("/bin/sleep", "602")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()

	next := OpenCustody(path, log)
	swept := make(chan struct{})
	go func() { defer close(swept); next.Sweep(context.Background()) }()
	if err := next.Cleared(context.Background(), "s"); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if !processGone(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	<-swept
	if processGone(stranger.Process.Pid) {
		t.Error("a process that was never ours was ended")
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("children.json is left: %v", err)
	}
}

// A recorded pid that now belongs to somebody else gets no signal.
func TestRecycledPIDIsSpared(t *testing.T) {
	stranger := exec.Command("/bin/sleep", "603")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	path := filepath.Join(t.TempDir(), "children.json")
	record := `[{"server":"s","pid":` + strconv.Itoa(stranger.Process.Pid) + `,"startTime":"another","tag":"GONE"}]`
	if err := os.WriteFile(path, []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	OpenCustody(path, slog.New(slog.DiscardHandler)).Sweep(context.Background())
	if processGone(stranger.Process.Pid) {
		t.Error("a stranger was ended because it has the pid of a dead child")
	}
}

// processGone reports whether pid is no living process.
func processGone(pid int) bool {
	stat, ok := readStat(pid)
	return !ok || stat.zombie
}
