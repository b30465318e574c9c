//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// program is this test binary under the name by which it is the program itself.
// Its own path is what a bridge starts the app by.
func program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mcp-funnel")
	if os.Link(self, path) == nil {
		return path
	}
	content, err := os.ReadFile(self) // another file system
	if err == nil {
		err = os.WriteFile(path, content, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// sandbox is a user of their own: home, folders, config, and the program.
type sandbox struct {
	t       *testing.T
	dir     string
	program string
	environ []string
	config  string
}

// newSandbox makes a user with the given config file; "" is none. $PROGRAM and $DIR
// in it are replaced.
func newSandbox(t *testing.T, text string) *sandbox {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "mcpf") // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	s := &sandbox{t: t, dir: dir, program: program(t), config: filepath.Join(dir, "config", "mcp-funnel", "config.json")}
	t.Cleanup(func() {
		s.run("quit") // whatever a bridge started
		_ = os.RemoveAll(dir)
	})
	for _, name := range []string{"run", "home", "config/mcp-funnel"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.environ = []string{
		"PATH=" + os.Getenv("PATH"), "SHELL=/bin/sh", "LANG=C.UTF-8", "HOME=" + filepath.Join(dir, "home"),
		"XDG_RUNTIME_DIR=" + filepath.Join(dir, "run"), "XDG_CONFIG_HOME=" + filepath.Join(dir, "config"),
		"XDG_STATE_HOME=" + filepath.Join(dir, "state"), "XDG_CACHE_HOME=" + filepath.Join(dir, "cache"),
		"XDG_DATA_HOME=" + filepath.Join(dir, "data"),
		// A program with the race detector waits for a second before it exits.
		"GORACE=atexit_sleep_ms=0 halt_on_error=1", "MCP_FUNNEL_TEST=1",
	}
	if text != "" {
		s.writeConfig(text)
	}
	return s
}

// writeConfig replaces the config file as editors do, by a rename.
func (s *sandbox) writeConfig(text string) {
	s.t.Helper()
	text = strings.NewReplacer("$PROGRAM", s.program, "$DIR", s.dir).Replace(text)
	if err := os.WriteFile(s.config+".new", []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.config+".new", s.config); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sandbox) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.program, args...)
	cmd.Env, cmd.Dir = s.environ, filepath.Join(s.dir, "home")
	return cmd
}

// run runs a command to its end and returns stdout, stderr and the exit code.
func (s *sandbox) run(args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	var out, errs bytes.Buffer
	cmd := s.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// started is a running app.
type started struct {
	cmd    *exec.Cmd
	stderr *lockedBuffer
	done   chan struct{}
}

// lockedBuffer is a buffer that may be read while a process writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start starts the app in the background and waits until it answers.
func (s *sandbox) start(args ...string) *started {
	s.t.Helper()
	a := s.launch(args...)
	s.report(func(core.Report) bool { return true })
	return a
}

// launch starts the app in the background.
func (s *sandbox) launch(args ...string) *started {
	s.t.Helper()
	return s.launchCommand(s.command(args...))
}

// launchCommand is launch with a command that becomes the app.
func (s *sandbox) launchCommand(cmd *exec.Cmd) *started {
	s.t.Helper()
	a := &started{cmd: cmd, stderr: &lockedBuffer{}, done: make(chan struct{})}
	a.cmd.Stderr = a.stderr
	if err := a.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(a.done)
		_ = a.cmd.Wait()
	}()
	s.t.Cleanup(func() {
		_ = a.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-a.done:
		case <-time.After(15 * time.Second):
			_ = a.cmd.Process.Kill()
			<-a.done
			s.t.Errorf("the app did not quit; it said:\n%s", a.stderr)
		}
		for _, race := range traytest.OurRaces(a.stderr.String()) {
			s.t.Errorf("the app has a race:\n%s", race)
		}
	})
	return a
}

// report waits until the app's status is as wanted and returns it.
func (s *sandbox) report(wanted func(core.Report) bool) core.Report {
	s.t.Helper()
	var out string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var code int
		out, _, code = s.run("status", "--json")
		var r core.Report
		if code == 0 && json.Unmarshal([]byte(out), &r) == nil && wanted(r) {
			return r
		}
	}
	s.t.Fatalf("the status never was as wanted; the last one: %s", out)
	return core.Report{}
}

// server waits until the named server is as wanted.
func (s *sandbox) server(name string, wanted func(status.Server) bool) status.Server {
	s.t.Helper()
	var found status.Server
	s.report(func(r core.Report) bool {
		for _, server := range r.Servers {
			if server.Name == name && wanted(server) {
				found = server
				return true
			}
		}
		return false
	})
	return found
}

func connected(s status.Server) bool { return s.State == status.Connected }

// client attaches a bridge and shakes hands.
func (s *sandbox) client(args ...string) *demoClient {
	s.t.Helper()
	c := s.bridge(args...)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.initialize(ctx); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// bridge starts a bridge and says nothing to it.
func (s *sandbox) bridge(args ...string) *demoClient {
	s.t.Helper()
	c, err := startClient(s.command(append([]string{"bridge"}, args...)...))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = c.stdin.Close()
		for range c.lines { // until it ended
		}
		if c.cmd != nil {
			_ = c.cmd.Wait()
		}
	})
	return c
}

// must calls a tool and returns its text.
func (s *sandbox) must(c *demoClient, tool, arguments string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text, err := c.call(ctx, tool, arguments)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// oneServer is a config with the built-in server as "demo", quick to give up.
const oneServer = `{
  "mcpServers": { "demo": { "command": "$PROGRAM", "args": ["demo-server", "--down-while", "$DIR/down"] } },
  "reconnect": { "maxAttempts": 2, "initialDelayMs": 50, "slowProbeIntervalMs": 300, "jitter": 0 }
}`

func (s *sandbox) touch(name string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sandbox) remove(name string) {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

// kill sends SIGKILL to a process that a test knows.
func (s *sandbox) kill(pid int) {
	s.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
}

// alive reports whether pid is a living process, and no zombie.
func alive(pid int) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(content), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// eventuallyTrue polls a condition.
func (s *sandbox) eventuallyTrue(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("never: %s", what)
		}
	}
}
