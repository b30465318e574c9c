//go:build linux

package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-funnel/core"
	"mcp-funnel/core/status"
)

// Whoever reads the app's stderr may go away: a launcher that ends, `2>&1 | head`.
func TestAppSurvivesTheReaderOfItsStderr(t *testing.T) {
	s := newSandbox(t, oneServer)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	app := s.command("serve")
	app.Stderr = write
	if err := app.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	if _, err := bufio.NewReader(read).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_ = read.Close()
	s.server("demo", connected)
	for _, command := range []string{"disable", "enable"} { // each is logged
		if _, stderr, code := s.run(command, "demo"); code != 0 {
			t.Errorf("%s: %d, %s", command, code, stderr)
		}
	}
	s.server("demo", connected)
	if _, stderr, code := s.run("quit"); code != 0 {
		t.Errorf("quit: %d, %s", code, stderr)
	}
	if err := app.Wait(); err != nil {
		t.Errorf("the app: %v", err)
	}
}

// And so may whoever reads a bridge's (invariant 10).
func TestInvariant10_BridgeSurvivesTheReaderOfItsStderr(t *testing.T) {
	s := newSandbox(t, oneServer)
	bridge := s.command("bridge")
	for i, pair := range bridge.Env { // without a home no app can be started, which is told
		if strings.HasPrefix(pair, "HOME=") {
			bridge.Env[i] = "NOHOME="
		}
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	bridge.Stderr = write
	c, err := startClient(bridge)
	if err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	_ = read.Close()
	if _, err := io.WriteString(c.stdin, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // it has told by now
	if !alive(bridge.Process.Pid) {
		t.Error("it died of telling")
	}
	_ = c.stdin.Close()
	for range c.lines {
	}
	if err := bridge.Wait(); err != nil {
		t.Errorf("the bridge: %v", err)
	}
}

// The demo leaves nothing when nobody watches it to the end.
func TestDemoThatIsNotWatchedLeavesNothing(t *testing.T) {
	s := newSandbox(t, "")
	s.environ = append(s.environ, "TMPDIR="+s.dir)
	before, err := filepath.Glob("/tmp/mcp-funnel-demo-*")
	if err != nil {
		t.Fatal(err)
	}
	demo := s.command("demo")
	out, err := demo.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	if err := demo.Wait(); err == nil {
		t.Error("it ended as if it had been seen")
	}
	folder := strings.TrimSpace(line[strings.LastIndex(line, " ")+1:])
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("%s is left (there were %d before): %v", folder, len(before), err)
	}
}

// Several that want to replace the same instance: one does, and the others leave, so
// that none comes back after a quit.
func TestLosersOfATakeoverLeave(t *testing.T) {
	s := newSandbox(t, oneServer)
	first := s.start("serve")
	var rivals []*started
	for range 5 {
		rivals = append(rivals, s.launch("serve", "--replace"))
	}
	<-first.done
	r := s.report(func(r core.Report) bool { return r.PID != first.cmd.Process.Pid })
	begun := time.Now()
	for _, rival := range rivals {
		if rival.cmd.Process.Pid == s.report(func(core.Report) bool { return true }).PID {
			continue
		}
		select {
		case <-rival.done:
		case <-time.After(10 * time.Second):
			t.Errorf("a loser still waits after %s", time.Since(begun))
		}
	}
	_ = r
	if _, stderr, code := s.run("quit"); code != 0 {
		t.Errorf("quit: %d, %s", code, stderr)
	}
	time.Sleep(300 * time.Millisecond)
	if _, _, code := s.run("status"); code != exitNotRunning {
		t.Errorf("after quit: exit code %d", code)
	}
}

func TestReplaceWithABrokenConfigStopsNothing(t *testing.T) {
	s := newSandbox(t, oneServer)
	a := s.start("serve")
	s.server("demo", connected)
	s.writeConfig("{ broken")
	if _, stderr, code := s.run("serve", "--replace"); code != exitInvalidConfig || !strings.Contains(stderr, "config.json:1:") {
		t.Errorf("serve --replace: %d, %s", code, stderr)
	}
	if r := s.report(func(core.Report) bool { return true }); r.PID != a.cmd.Process.Pid {
		t.Errorf("the app is now %d", r.PID)
	}
}

// What a client holds open, a lock above all, does not live on in the app.
func TestAppDoesNotInheritTheFilesOfAClient(t *testing.T) {
	s := newSandbox(t, oneServer)
	lock, err := os.Create(filepath.Join(s.dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	bridge := s.command("bridge")
	bridge.ExtraFiles = []*os.File{lock}
	c, err := startClient(bridge)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.initialize(ctx); err != nil {
		t.Fatal(err)
	}
	s.server("demo", connected)
	if err := c.close(ctx); err != nil {
		t.Error(err)
	}
	_ = lock.Close()
	again, err := os.Open(filepath.Join(s.dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if err := unix.Flock(int(again.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("the client's lock is still held: %v", err)
	}
}

// The log of a server says why it cannot even be started.
func TestLogOfAServerThatNeverStarted(t *testing.T) {
	s := newSandbox(t, `{"mcpServers": {"miss": {"command": "no-such-program"}}}`)
	s.start("serve")
	s.server("miss", func(s status.Server) bool { return s.LastError != "" })
	stdout, stderr, code := s.run("logs", "miss")
	if code != 0 || !strings.Contains(stdout, "no-such-program") {
		t.Errorf("logs: %d, %s%s", code, stdout, stderr)
	}
}
