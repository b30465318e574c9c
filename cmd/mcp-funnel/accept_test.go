//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-funnel/core"
	"mcp-funnel/singleton"
)

// What a bridge says of its client, and how the app shows it.
func TestHelloSaysWhoseSessionItIs(t *testing.T) {
	s := newSandbox(t, oneServer)
	dir := filepath.Join(s.dir, "run", "mcp-funnel")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "funnel.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	s.environ = append(s.environ, "CLAUDE_PROJECT_DIR=/projects/one", "CLAUDE_CODE_SESSION_ID=session-1",
		"SECRET_TOKEN=canary", "CLAUDE_CONFIG_DIR="+s.dir)
	c := s.client("--name", "tools")
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn, hello, err := singleton.Accept(t.Context(), accepted)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	want := singleton.Hello{
		Protocol: singleton.Protocol, Role: singleton.RoleBridge, Version: buildVersion(),
		PID: c.cmd.Process.Pid, PPID: os.Getpid(), CWD: filepath.Join(s.dir, "home"), Name: "tools",
		Env: map[string]string{"CLAUDE_PROJECT_DIR": "/projects/one", "CLAUDE_CODE_SESSION_ID": "session-1"},
	}
	if diff := cmp.Diff(want, hello); diff != "" {
		t.Error(diff)
	}
	_, _ = conn.Close(), listener.Close() // now to a real one

	s.start("serve")
	r := s.attached(1)
	if got := r.Sessions[0]; got.CWD != "/projects/one" || got.Client.Name != "mcp-funnel-demo" || got.PID != c.cmd.Process.Pid {
		t.Errorf("the session is shown as %+v", got)
	}
	if out, _, _ := s.run("status"); !strings.Contains(out, "/projects/one") || !strings.Contains(out, "mcp-funnel-demo") {
		t.Errorf("status:\n%s", out)
	}
}

// attachDirectly is a session without a bridge's process.
func (s *sandbox) attachDirectly(name string) (*singleton.Conn, error) {
	conn, _, err := singleton.Dial(s.t.Context(), filepath.Join(s.dir, "run", "mcp-funnel"),
		singleton.Hello{Role: singleton.RoleBridge, Version: "1", CWD: "/"})
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":%q,"version":"1"}}}`+"\n", name)
	for err == nil { // until the answer; others are for the bridge
		var line []byte
		if line, err = conn.R.ReadSlice('\n'); strings.HasPrefix(string(line), `{"jsonrpc"`) {
			return conn, nil
		}
	}
	return nil, errors.Join(err, conn.Close())
}

// Sessions that come and go leave nothing behind.
func TestThousandSessionsLeaveNothing(t *testing.T) {
	s := newSandbox(t, oneServer)
	app := s.start("serve")
	s.server("demo", connected)
	look := func() (goroutines, files int) {
		r := s.attached(0)
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", app.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return r.Goroutines, len(entries)
	}
	goroutines, files := look()
	begun := time.Now()
	for i := range 1000 {
		conn, err := s.attachDirectly(fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 { // some leave a call open
			_, err = io.WriteString(conn, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"demo__hang"}}`+"\n")
		}
		if err = errors.Join(err, conn.Close()); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(begun)
	goroutinesLeft, filesLeft := look()
	t.Logf("1000 sessions in %s: %d goroutines and %d files before, %d and %d after", took, goroutines, files, goroutinesLeft, filesLeft)
	if goroutinesLeft > goroutines+10 || filesLeft > files+10 {
		t.Error("that is more")
	}
}

// What connects and is no client of ours: it says nothing, or nonsense, and there may
// be more of it than the app has file descriptors for. Sessions go on meanwhile, and
// whoever comes afterwards is let in.
func TestConnectionsThatAreNone(t *testing.T) {
	s := newWitnessed(t)
	limited := s.command()
	limited.Path, limited.Args = "/bin/sh", []string{"sh", "-c", `ulimit -n 64; exec "$0" serve`, s.program}
	app := s.launchCommand(limited)
	l := s.loadedClient("one")
	l.greet()
	wantResult(t, "before", l.call("before", 0, 0))
	path := filepath.Join(s.dir, "run", "mcp-funnel", "funnel.sock")
	var silent []net.Conn
	defer func() {
		for _, c := range silent {
			_ = c.Close()
		}
	}()
	for range 120 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, c)
	}
	s.eventuallyTrue("the app has no file descriptor left", func() bool {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", app.cmd.Process.Pid))
		return err == nil && len(entries) >= 63
	})
	wantResult(t, "meanwhile", l.call("meanwhile", 0, 0))
	for _, c := range silent {
		_ = c.Close()
	}
	for _, nonsense := range []string{"\n", "GET / HTTP/1.1\r\n\r\n", "{}\n", `{"mcp-funnel":1,"role":"king"}` + "\n",
		`{"mcp-funnel":"1"}` + "\n", strings.Repeat("x", 100<<10), `{"mcp-funnel":99,"role":"bridge"}` + "\n"} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(c, nonsense) // it may be cut off before all of it is through
		line, err := bufio.NewReader(c).ReadString('\n')
		if !strings.Contains(line, `"error":`) && err == nil {
			t.Errorf("to %.40q the app says %s", nonsense, line)
		}
		_ = c.Close()
	}
	s.report(func(r core.Report) bool { return r.PID == app.cmd.Process.Pid })
	wantResult(t, "after", l.call("after", 0, 0))
}

// broken is a listener that fails for a while, in a way that nobody knows.
type broken struct {
	net.Listener
	failures int
}

func (b *broken) Accept() (net.Conn, error) {
	if b.failures > 0 {
		b.failures--
		return nil, errors.New("out of luck")
	}
	return b.Listener.Accept()
}

func TestAcceptingGoesOnAfterEveryError(t *testing.T) {
	var log lockedBuffer
	a := &app{log: slog.New(slog.NewTextHandler(&log, nil))}
	headless := modeHeadless
	a.mode.Store(&headless)
	dir, err := os.MkdirTemp("/tmp", "mcpf")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.accept(ctx, &broken{listener, 3}) }()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	_, err = io.WriteString(c, "nonsense\n")
	line, readErr := bufio.NewReader(c).ReadString('\n')
	if err != nil || readErr != nil || !strings.Contains(line, "not a greeting") {
		t.Errorf("%q, %v, %v", line, err, readErr)
	}
	_ = c.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "out of luck"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}
