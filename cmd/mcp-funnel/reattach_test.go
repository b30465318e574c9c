//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcp-funnel/core"
	"mcp-funnel/core/status"
	"mcp-funnel/tray/traytest"
)

// eventuallyRan waits until the witness noted a line.
func (s *sandbox) eventuallyRan(line string) {
	s.t.Helper()
	s.eventuallyTrue("the server noted "+line, func() bool { return s.ran()[line] > 0 })
}

// attached waits until as many sessions are attached.
func (s *sandbox) attached(n int) core.Report {
	s.t.Helper()
	return s.report(func(r core.Report) bool { return len(r.Sessions) == n })
}

func wantResult(t *testing.T, key, reply string) {
	t.Helper()
	if !strings.Contains(reply, `"text":"`+key+" ") {
		t.Errorf("the reply to %s: %s", key, reply)
	}
}

func wantRefusal(t *testing.T, reply string, texts ...string) {
	t.Helper()
	for _, text := range append(texts, `"error":`) {
		if !strings.Contains(reply, text) {
			t.Errorf("no %q in %s", text, reply)
		}
	}
}

// cpuTime is what a process has used.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(rest)
	var user, system int
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 everywhere
}

// The app quits and is started again later: the session goes on, and nothing but the
// user starts it.
func TestC140_QuitStaysQuitAndTheSessionGoesOn(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newWitnessed(t)
	s.start("serve")
	l := s.loadedClient("one")
	l.greet()
	wantResult(t, "before", l.call("before", 0, 0))
	listed := l.ask("list", "tools/list", "{}")
	if _, stderr, code := s.run("quit"); code != 0 {
		t.Fatalf("quit: %d, %s", code, stderr)
	}
	pid := l.c.cmd.Process.Pid
	used := cpuTime(t, pid)
	begun := time.Now()
	again := l.ask("list again", "tools/list", "{}")
	if strings.ReplaceAll(again, "list again", "list") != listed {
		t.Errorf("the list is now %s, it was %s", again, listed)
	}
	if reply := l.ask("ping", "ping", "{}"); !strings.Contains(reply, `"result":{}`) {
		t.Errorf("the ping: %s", reply)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("answers from memory took %s", took)
	}
	wantRefusal(t, l.call("between", 0, 0), "does not run", "nothing was called", "Start it")
	if took := time.Since(begun); took < 4*time.Second || took > 8*time.Second {
		t.Errorf("the call without an app took %s", took)
	}
	if s.appPID() != 0 {
		t.Fatal("the bridge started the app that was quit")
	}
	if used = cpuTime(t, pid) - used; used > 200*time.Millisecond {
		t.Errorf("without an app the bridge used %s of CPU in %s", used, time.Since(begun))
	}
	s.start("serve")
	wantResult(t, "after", l.call("after", 0, 0))
	if reply := l.ask("hello", "initialize", `{"protocolVersion":"2025-11-25"}`); !strings.Contains(reply, `"listChanged":true`) {
		t.Errorf("initialize: %s", reply)
	}
	if ran := s.ran(); ran["before"] != 1 || ran["between"] != 0 || ran["after"] != 1 {
		t.Errorf("the server ran %v", ran)
	}
}

// The client comes first (at a log-in, say), the app much later.
func TestC141_TheAppComesAfterTheBridge(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newSandbox(t, oneServer)
	c := s.bridge("--no-start")
	begun := time.Now()
	if _, err := c.initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("initialize took %s with the start of the bridge", time.Since(begun))
	tools, err := c.tools(t.Context())
	if err != nil || len(tools) != 0 {
		t.Errorf("tools without an app: %v, %v", tools, err)
	}
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("they took %s", took)
	}
	s.start("serve")
	for m := range c.lines {
		if m.MethodName() == "notifications/tools/list_changed" {
			break
		}
	}
	s.eventuallyTrue("the tools are listed", func() bool {
		tools, err := c.tools(t.Context())
		return err == nil && len(tools) == 6
	})
	if got := s.must(c, "demo__add", `{"a":1,"b":2}`); got != "3" {
		t.Errorf("1+2 = %s", got)
	}
}

// However many sessions come, come back and leave: one process for each server.
func TestC144_SessionsShareTheServers(t *testing.T) {
	s := newSandbox(t, oneServer)
	s.start("serve")
	clients := make([]*demoClient, 10)
	for i := range clients {
		clients[i] = s.client()
	}
	s.attached(10)
	server := s.server("demo", connected).PID
	for i := range 3 { // these come again
		if err := clients[i].close(t.Context()); err != nil {
			t.Error(err)
		}
		clients[i] = s.client()
	}
	if err := clients[9].close(t.Context()); err != nil {
		t.Error(err)
	}
	s.attached(9)
	for i, c := range clients[:9] {
		if got := s.must(c, "demo__calls", "{}"); got != fmt.Sprintf("calls=%d pid=%d", i+1, server) {
			t.Errorf("client %d: %s, want process %d", i, got, server)
		}
	}
}

// The app is killed at every point of a call.
func TestKilledAppAtEveryPointOfACall(t *testing.T) {
	s := newWitnessed(t)
	l := s.loadedClient("one") // it starts the app
	l.greet()
	wantResult(t, "first", l.call("first", 0, 0))
	background := func(key string, millis, size int) chan string {
		reply := make(chan string, 1)
		go func() { reply <- l.call(key, millis, size) }()
		return reply
	}

	// It was written to the socket, and the app has not read it.
	app := s.appPID()
	s.signal(app, syscall.SIGSTOP)
	reply := background("undelivered", 0, 0)
	time.Sleep(100 * time.Millisecond)
	s.kill(app)
	wantRefusal(t, <-reply, "lost", "may have run")

	begun := time.Now()
	wantResult(t, "next", l.call("next", 0, 0))
	t.Logf("the app was killed; the next call was answered after %s", time.Since(begun))

	// The server has it.
	reply = background("delivered", 60_000, 0)
	s.eventuallyRan("delivered")
	begun = time.Now()
	s.kill(s.appPID())
	wantRefusal(t, <-reply, "lost", "may have run")
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("its client heard of it after %s", took)
	}
	wantResult(t, "next2", l.call("next2", 0, 0))

	// The bridge has got a part of the answer.
	bridge := l.c.cmd.Process.Pid
	reply = background("large", 300, 5<<20)
	s.eventuallyRan("large")
	s.signal(bridge, syscall.SIGSTOP)
	time.Sleep(time.Second) // it fills the socket
	s.kill(s.appPID())
	s.signal(bridge, syscall.SIGCONT)
	wantRefusal(t, <-reply, "lost", "may have run")
	wantResult(t, "next3", l.call("next3", 0, 0))

	for key, n := range s.ran() {
		if n != 1 || key == "undelivered" {
			t.Errorf("%s ran %d times", key, n)
		}
	}
}

// signal sends a signal. When it returns after SIGSTOP, no thread of the process runs.
func (s *sandbox) signal(pid int, signal syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		s.t.Fatal(err)
	}
	if signal != syscall.SIGSTOP {
		return
	}
	s.eventuallyTrue("all threads are stopped", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, thread := range threads {
			content, readErr := os.ReadFile(thread)
			_, state, _ := strings.Cut(string(content), ") ")
			if readErr != nil || !strings.HasPrefix(state, "T") {
				return false
			}
		}
		return err == nil && len(threads) > 0
	})
}

// An app that is replaced finishes what runs; what comes meanwhile is the new one's.
// Afterwards everything works that a session can do.
func TestReplaceFinishesCallsAndTheSuccessorGoesOn(t *testing.T) {
	s := newWitnessed(t)
	first := s.start("serve")
	l := s.loadedClient("one")
	l.greet()
	wantResult(t, "before", l.call("before", 0, 0))
	var calls sync.WaitGroup
	calls.Go(func() { wantResult(t, "running", l.call("running", 1500, 0)) })
	s.eventuallyRan("running")
	server := s.server("w", connected).PID
	s.launch("serve", "--replace")
	time.Sleep(300 * time.Millisecond) // it has asked the first one by now
	begun := time.Now()
	calls.Go(func() { wantResult(t, "meanwhile", l.call("meanwhile", 0, 0)) })
	calls.Wait()
	t.Logf("a call during the replacement was answered after %s", time.Since(begun))
	<-first.done
	if alive(server) {
		t.Error("the old server is left")
	}

	// Progress and cancellation after attaching again.
	l.mu.Lock()
	_, err := fmt.Fprint(l.c.stdin, `{"jsonrpc":"2.0","id":"gone","method":"tools/call","params":{"name":"w__run","arguments":{"key":"gone","millis":60000,"progress":true},"_meta":{"progressToken":"tok"}}}`+"\n")
	l.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	s.eventuallyRan("gone")
	s.eventuallyTrue("progress came", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.progress[`"tok"`] > 0
	})
	l.mu.Lock()
	_, err = fmt.Fprint(l.c.stdin, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"gone"}}`+"\n")
	l.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	s.eventuallyRan("cancelled gone")
	for key, n := range s.ran() {
		if n != 1 {
			t.Errorf("%s ran %d times", key, n)
		}
	}
}

// A call that waits for a server when the app is replaced is called by the new one.
func TestReplaceHandsBackWhatWaits(t *testing.T) {
	s := newSandbox(t, `{
	  "mcpServers": { "demo": { "command": "$PROGRAM", "args": ["demo-server", "--down-while", "$DIR/down"] } },
	  "reconnect": { "maxAttempts": 20, "initialDelayMs": 2000, "maxDelayMs": 2000, "jitter": 0 }
	}`)
	first := s.start("serve")
	c := s.client()
	s.must(c, "demo__echo", `{"message":"x"}`)
	s.touch("down")
	s.kill(s.server("demo", connected).PID)
	s.server("demo", func(s status.Server) bool { return s.State != status.Connected })
	result := make(chan string, 1)
	go func() {
		text, err := c.call(context.Background(), "demo__calls", "{}")
		result <- fmt.Sprint(text, err)
	}()
	time.Sleep(200 * time.Millisecond)
	s.launch("serve", "--replace")
	<-first.done
	s.remove("down") // so it was not the first one that called
	if got := <-result; !strings.HasPrefix(got, "calls=1 ") {
		t.Errorf("the call that waited: %s", got)
	}
}

// One that is started in a desktop session takes over from one without an icon.
func TestTrayTakesOverFromAHeadlessInstance(t *testing.T) {
	s := newWitnessed(t)
	first := s.start("serve")
	l := s.loadedClient("one")
	l.greet()
	wantResult(t, "before", l.call("before", 0, 0))
	s.environ = append(s.environ, "DBUS_SESSION_BUS_ADDRESS="+traytest.StartBus(t).Address)
	second := s.launch("tray")
	<-first.done
	r := s.report(func(r core.Report) bool { return r.PID == second.cmd.Process.Pid })
	if r.Mode != modeTray {
		t.Errorf("the new one is %s", r.Mode)
	}
	wantResult(t, "after", l.call("after", 0, 0))
	// And no further: another start is one too many.
	if _, stderr, code := s.run("tray"); code != 0 || !strings.Contains(stderr, "already running") {
		t.Errorf("a third start: %d, %s", code, stderr)
	}
}

// As long as no app can be started the bridge tries, says why, and takes the one that
// somebody starts by hand.
func TestBridgeWhoseAppCannotStart(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newWitnessed(t)
	s.touch("state") // a file where the app needs a folder
	l := s.loadedClient("one")
	l.greet()
	wantRefusal(t, l.call("in vain", 0, 0), "ended at once", "nothing was called")
	pid := l.c.cmd.Process.Pid
	used, begun := cpuTime(t, pid), time.Now()
	time.Sleep(3 * time.Second)
	if used = cpuTime(t, pid) - used; used > 200*time.Millisecond {
		t.Errorf("the bridge used %s of CPU in %s", used, time.Since(begun))
	}
	s.remove("state")
	s.start("serve")
	wantResult(t, "at last", l.call("at last", 0, 0))
}
