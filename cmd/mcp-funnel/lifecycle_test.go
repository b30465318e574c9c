//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcp-funnel/core"
	"mcp-funnel/core/status"
)

// do runs a command that has to succeed.
func (s *sandbox) do(args ...string) {
	s.t.Helper()
	if _, stderr, code := s.run(args...); code != 0 {
		s.t.Fatalf("%v: exit code %d, %s", args, code, stderr)
	}
}

// tree are the living processes with the mark of a server in their environment.
func (s *sandbox) tree() []int {
	s.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		s.t.Fatal(err)
	}
	var pids []int
	for _, file := range files {
		environ, _ := os.ReadFile(file) // another user's, or gone
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if strings.Contains("\x00"+string(environ), "\x00TREE="+s.dir+"\x00") && alive(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// wrapped is a server below two shells, as npx has it, which does not end with its
// stdin. The last word keeps the shells from giving their place to it.
const wrapped = `{"mcpServers": {"wrapped": {
	"command": "sh", "args": ["-c", "sh -c 'faulty --stay; true'; true"], "env": {"TREE": "$DIR"}}}}`

func TestC60_WrappedServerEndsWithItsWholeTree(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, wrapped)
	s.start("serve")
	// ends does something after which the present tree has to be gone.
	ends := func(what string, action func()) {
		t.Helper()
		s.server("wrapped", connected)
		old := s.tree()
		if len(old) != 3 {
			t.Fatalf("before %s it is the processes %v", what, old)
		}
		begun := time.Now()
		action()
		s.eventuallyTrue("the whole tree is gone after "+what, func() bool { return !slices.ContainsFunc(old, alive) })
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("after %s the tree lived on for %s", what, took)
		}
	}
	ends("a restart", func() { s.do("reconnect", "wrapped") })
	s.server("wrapped", connected)
	if now := s.tree(); len(now) != 3 {
		t.Errorf("after a restart there are %v, want one tree of 3", now)
	}
	ends("switching off", func() { s.do("disable", "wrapped") })
	s.do("enable", "wrapped")
	ends("taking it out of the config", func() { s.writeConfig("{}") })
	s.writeConfig(wrapped)
	ends("quit", func() { s.do("quit") })
	if left := s.tree(); len(left) > 0 {
		t.Errorf("after quit there are %v", left)
	}
}

// orphan attaches a bridge below a shell, which is the client. Its stdin is held open
// by the test, as by a sibling of the client.
func (s *sandbox) orphan() (c *demoClient, bridge int, err error) {
	shell := s.command()
	shell.Path, shell.Args = "/bin/sh", []string{"sh", "-c", `"$0" bridge <&3 & echo $! >&4; wait`, s.program}
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	told, tell, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = told.Close() }()
	shell.ExtraFiles = []*os.File{in, tell}
	c, err = startClient(shell)
	_, _ = in.Close(), tell.Close()
	if err != nil {
		return nil, 0, err
	}
	c.stdin = stdin
	_, err = fmt.Fscan(told, &bridge)
	return c, bridge, err
}

// bridgeEnds are the ways in which a client leaves.
var bridgeEnds = map[string]func(*demoClient) error{
	"EOF":     func(c *demoClient) error { return c.stdin.Close() },
	"SIGKILL": func(c *demoClient) error { return c.cmd.Process.Kill() }, // of the client
	"SIGINT":  func(c *demoClient) error { return c.cmd.Process.Signal(syscall.SIGINT) },
	"SIGTERM": func(c *demoClient) error { return c.cmd.Process.Signal(syscall.SIGTERM) },
	"SIGHUP":  func(c *demoClient) error { return c.cmd.Process.Signal(syscall.SIGHUP) },
}

// liveAndEnd attaches a bridge, uses it, ends it, and says what went wrong.
func (s *sandbox) liveAndEnd(how string) (err error) {
	var c *demoClient
	var bridge int
	if how == "SIGKILL" {
		c, bridge, err = s.orphan()
	} else if c, err = startClient(s.command("bridge")); err == nil {
		bridge = c.cmd.Process.Pid
	}
	if err != nil {
		return err
	}
	defer func() {
		_ = c.stdin.Close()
		for range c.lines { // until it ended
		}
		_ = c.cmd.Wait()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.initialize(ctx); err != nil {
		return err
	}
	if _, err := c.tools(ctx); err != nil { // which the app answers
		return err
	}
	begun := time.Now()
	if err := bridgeEnds[how](c); err != nil {
		return err
	}
	for alive(bridge) {
		if time.Since(begun) > 2*time.Second {
			return errors.New("the bridge is still there after 2 s")
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

func TestC65_BridgesEndWithTheirClients(t *testing.T) {
	each := 50
	if testing.Short() {
		each = 5
	}
	s := newSandbox(t, oneServer)
	s.start("serve")
	for how := range bridgeEnds {
		t.Run(how, func(t *testing.T) {
			var all sync.WaitGroup
			slots := make(chan struct{}, 8)
			for range each {
				slots <- struct{}{}
				all.Go(func() {
					if err := s.liveAndEnd(how); err != nil {
						t.Error(err)
					}
					<-slots
				})
			}
			all.Wait()
			s.report(func(r core.Report) bool { return len(r.Sessions) == 0 })
		})
	}
}

// `docker run` is given the time to remove its container: one that ends with its
// stdin, and one that waits for SIGTERM and is done 5 s after stdin was closed.
func TestC68_ContainersAreRemovedBeforeTheirClientEnds(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, `{"mcpServers": {
		"polite": {"command": "docker", "args": ["run", "-i", "--rm", "img", "--container", "$DIR/polite"], "env": {"PATH": "$DIR/bin:/usr/bin:/bin"}},
		"deaf": {"command": "docker", "args": ["run", "-i", "--rm", "img", "--container", "$DIR/deaf", "--deaf"], "env": {"PATH": "$DIR/bin:/usr/bin:/bin"}}}}`)
	program, err := exec.LookPath("faulty")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	shim := "#!/bin/sh\nshift 4\nexec " + program + ` "$@"` + "\n"
	if err := os.WriteFile(filepath.Join(s.dir, "bin", "docker"), []byte(shim), 0o700); err != nil {
		t.Fatal(err)
	}
	s.start("serve")
	containers := []string{"polite", "deaf"}
	for _, name := range containers {
		s.server(name, connected)
		if _, err := os.Stat(filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.do("quit")
	for _, name := range containers {
		if _, err := os.Stat(filepath.Join(s.dir, name)); !os.IsNotExist(err) {
			t.Errorf("container %q is left: %v", name, err)
		}
	}
}

// A server that takes its time is let to, and is seen to be starting.
func TestC69_SlowStartIsShown(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, `{"mcpServers": {"slow": {"command": "faulty", "args": ["--slow", "5s"]}}}`)
	s.start("serve")
	starting := regexp.MustCompile(`slow +starting \(([3-9]|\d\d+) s\)`)
	s.eventuallyTrue("it is shown for how long it has been starting", func() bool {
		stdout, _, _ := s.run("status")
		return starting.MatchString(stdout)
	})
	if now := s.server("slow", connected); now.Restarts != 0 || now.LastError != "" {
		t.Errorf("it was not ready at the first attempt: %+v", now)
	}
}

// One server never answers, one takes long, and three are quick: these are used while
// the others still start.
func TestC70_QuickServersDoNotWaitForSlowOnes(t *testing.T) {
	s := newSandbox(t, `{"mcpServers": {
		"hung": {"command": "faulty", "args": ["--hang"]}, "slow": {"command": "faulty", "args": ["--wait-for", "$DIR/go"]},
		"quick1": {"command": "faulty"}, "quick2": {"command": "faulty"}, "quick3": {"command": "faulty"}}}`)
	begun := time.Now()
	s.launch("serve")
	c := s.client()
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("initialize took %s", took)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tools, err := c.tools(ctx)
	if err != nil || len(tools) != 18 {
		t.Errorf("%d tools, want those of the three quick servers, %v", len(tools), err)
	}
	for _, name := range []string{"quick1", "quick2", "quick3"} {
		if got := s.must(c, name+"__add", `{"a":2,"b":40}`); got != "42" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("the quick servers could be used after %s", took)
	}
	for _, name := range []string{"hung", "slow"} {
		s.server(name, func(s status.Server) bool { return s.State == status.Connecting })
	}
	s.touch("go")
	s.server("slow", connected)
	if got := s.must(c, "slow__add", `{"a":2,"b":40}`); got != "42" {
		t.Errorf("slow: %q", got)
	}
}

// Servers that end at once, close their stdout, or end with calls running: only their
// own calls fail, at once, and say why.
func TestC72_LostServersHarmOnlyThemselves(t *testing.T) {
	s := newSandbox(t, `{"mcpServers": {
		"gone":  {"command": "sh", "args": ["-c", "echo no key >&2; exit 3"]},
		"shut":  {"command": "faulty", "args": ["--shut"]},
		"crash": {"command": "faulty"},
		"demo":  {"command": "faulty"}}}`)
	app := s.start("serve")
	c := s.client()
	gone := s.server("gone", func(s status.Server) bool { return s.LastError != "" })
	if !strings.Contains(gone.LastError, "exit code 3") || !strings.Contains(gone.LastError, "no key") {
		t.Errorf("gone: %q", gone.LastError)
	}
	demo := s.server("demo", connected).PID
	s.send(c, toolCall(`"bystander"`, "demo__hang", `{}`))
	for _, lost := range []struct{ server, tool, reason string }{
		{"shut", "shut__hang", "closed its output and goes on running"},
		{"crash", "crash__crash", "exit code 1"},
	} {
		pid := s.server(lost.server, connected).PID
		begun := time.Now()
		s.send(c, toolCall("101", lost.server+"__hang", `{}`), toolCall("102", lost.tool, `{}`))
		for range 2 {
			reply := s.receive(c)
			if !strings.Contains(reply, `"id":10`) || !strings.Contains(reply, lost.reason) {
				t.Errorf("%s: %s", lost.server, reply)
			}
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("%s: the errors took %s", lost.server, took)
		}
		s.server(lost.server, func(s status.Server) bool { return connected(s) && s.PID != pid })
		if alive(pid) {
			t.Errorf("%s: process %d lives beside the new one", lost.server, pid)
		}
	}
	if got := s.must(c, "demo__calls", `{}`); got != fmt.Sprintf("calls=2 pid=%d", demo) {
		t.Errorf("the bystander: %q, want the process %d and its second call", got, demo)
	}
	if r := s.report(func(core.Report) bool { return true }); r.PID != app.cmd.Process.Pid {
		t.Errorf("the app is now %d", r.PID)
	}
}

// listChanges collects notifications of changed lists until nothing comes for a while.
func listChanges(c *demoClient, quiet time.Duration) int {
	changes := 0
	for {
		select {
		case m := <-c.lines:
			if m.MethodName() == "notifications/tools/list_changed" {
				changes++
			}
		case <-time.After(quiet):
			return changes
		}
	}
}

// A server is started anew when a file changes that it is made of: soon, once for many
// changes in a row, and the client is told if its tools are others then. One that is
// switched off stays so.
func TestWatchedFileRestartsItsServer(t *testing.T) {
	s := newSandbox(t, `{"mcpServers": {"made": {
		"command": "sh", "args": ["-c", "exec mcp-funnel demo-server --tools $(cat $DIR/src/lib/tools)"], "watch": ["$DIR/src"]}}}`)
	lib := filepath.Join(s.dir, "src", "lib")
	if err := os.MkdirAll(lib, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(lib, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tools", "1")
	s.start("serve")
	first := s.server("made", connected)
	c := s.client()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if tools, err := c.tools(ctx); err != nil || len(tools) != 7 {
		t.Fatalf("tools %v, %v", tools, err)
	}

	for i := range 10 { // an editor or a build
		write("tools", "2")
		write("file"+strconv.Itoa(i), "x")
		time.Sleep(20 * time.Millisecond)
	}
	changed := time.Now()
	second := s.server("made", func(s status.Server) bool { return connected(s) && s.PID != first.PID })
	if took := second.Since.Sub(changed); took > 2*time.Second {
		t.Errorf("it was connected again %s after the change", took)
	}
	if changes := listChanges(c, time.Second); changes != 1 {
		t.Errorf("the client was told %d times that the tools changed", changes)
	}
	if tools, err := c.tools(ctx); err != nil || len(tools) != 8 {
		t.Errorf("tools %v, %v", tools, err)
	}
	if now := s.server("made", connected); now.PID != second.PID || now.Restarts != 1 {
		t.Errorf("process %d, then %d, %d restarts", second.PID, now.PID, now.Restarts)
	}

	write("other", "x") // the tools are the same
	s.server("made", func(s status.Server) bool { return connected(s) && s.PID != second.PID })
	if changes := listChanges(c, time.Second); changes != 0 {
		t.Errorf("the client was told %d times of the same tools", changes)
	}

	s.do("disable", "made")
	s.server("made", func(s status.Server) bool { return s.State == status.Disabled && s.PID == 0 })
	write("tools", "3")
	time.Sleep(1500 * time.Millisecond) // it would have been started by now
	if now := s.server("made", func(status.Server) bool { return true }); now.State != status.Disabled || now.PID != 0 {
		t.Errorf("switched off, and after a change %+v", now)
	}
}
