package tray

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-funnel/core/status"
	"mcp-funnel/tray/traytest"
)

// child is a process with a tray and no funnel. There must be one for each
// scenario, because the tray library can run once in a process. Each line of in
// is a snapshot, as JSON, for the board; the end of in ends the tray. Each line
// of out is something that happened.
func child(in io.Reader, out io.Writer) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	say := reporter(out)
	board := status.NewBoard()
	events := status.NewEvents(64, nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		var last uint64
		for {
			batch, newest, _, err := events.Next(ctx, last)
			if err != nil {
				return
			}
			last = newest
			for _, e := range batch {
				say("event %s %q %s", e.Name, e.Title, e.State)
			}
		}
	})
	wg.Go(func() {
		var last uint64
		var tray *status.Tray
		for {
			snapshot, err := board.Wait(ctx, last)
			if err != nil {
				return
			}
			last = snapshot.Generation
			if tray == nil || *tray != snapshot.Tray {
				tray = &snapshot.Tray
				say("tray %v %s", tray.Shown, tray.Reason)
			}
		}
	})
	go func() { // not waited for: a read of standard input cannot be ended
		defer cancel()
		for lines := json.NewDecoder(in); ; {
			var s status.Snapshot
			if lines.Decode(&s) != nil {
				return
			}
			board.Update(func(b *status.Snapshot) { b.Servers, b.Sessions, b.Config = s.Servers, s.Sessions, s.Config })
			say("updated")
		}
	}()
	before := goleak.IgnoreCurrent()
	err := New(Options{
		Board: board, Events: events, Controls: recorder{say: say, board: board}, Version: "1.2_3",
		Log:           slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Policy:        func() Policy { return Policy{Enabled: os.Getenv("QUIET") == "", After: time.Second} },
		Notifications: newSetting(say, "notifications", true), Autostart: newSetting(say, "autostart", false),
		Details: func(context.Context) Details {
			say("measured")
			return Details{Memory: map[string]int64{"files": 2 << 20}, Sessions: board.Snapshot().Sessions}
		},
		LogPath:    func(server string) string { return filepath.Join(os.Getenv("HOME"), server+".log") },
		ConfigPath: filepath.Join(os.Getenv("HOME"), "config", "config.json"),
		Updated:    func() bool { _, err := os.Stat(filepath.Join(os.Getenv("HOME"), "updated")); return err == nil },
		Restart:    func(context.Context) error { say("restart"); return errors.New("it does not start") },
	}).Run(ctx)
	say("run returned: %v, unavailable %v", err, errors.Is(err, ErrUnavailable))
	if err := goleak.Find(before); err != nil {
		say("left behind: %v", err)
	}
	<-ctx.Done()
	wg.Wait()
	say("ended")
	return 0
}

func reporter(out io.Writer) func(format string, args ...any) {
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, format+"\n", args...)
	}
}

// recorder is the funnel's end of the menu.
type recorder struct {
	say   func(string, ...any)
	board *status.Board
}

func (r recorder) Reconnect(_ context.Context, name string) error {
	r.say("reconnect %s", name)
	return nil
}

func (r recorder) ReconnectAll(context.Context) error {
	r.say("reconnect all")
	return nil
}

func (r recorder) SetEnabled(_ context.Context, name string, on bool) error {
	r.say("enable %s %v", name, on)
	server, _ := r.board.Snapshot().Server(name)
	server.Enabled, server.State = on, status.Connected
	if !on {
		server.State = status.Disabled
	}
	r.board.SetServer(server)
	return nil
}

func (r recorder) Quit() { r.say("quit") }

// setting is a switch that only remembers.
type setting struct {
	say  func(string, ...any)
	name string
	on   atomic.Bool
}

func newSetting(say func(string, ...any), name string, on bool) *setting {
	s := &setting{say: say, name: name}
	s.on.Store(on)
	return s
}

func (s *setting) On() bool { return s.on.Load() }

func (s *setting) Set(on bool) error {
	s.say("%s %v", s.name, on)
	s.on.Store(on)
	return nil
}

// app is a child as its test sees it.
type app struct {
	t    *testing.T
	home string
	cmd  *exec.Cmd
	in   io.WriteCloser

	mu       sync.Mutex
	lines    []string
	stderr   bytes.Buffer
	finished bool
	// leftBehind: a goroutine of Run stays, as it should.
	leftBehind bool
	done       chan struct{} // closed when all output was read
}

// startApp starts a child on a bus and ends it with the test; variables are its
// environment, besides a private home.
func startApp(t *testing.T, variables ...string) *app {
	t.Helper()
	a := &app{t: t, cmd: exec.Command(os.Args[0], "-test.run=^$"), done: make(chan struct{})}
	dir := t.TempDir()
	a.home = dir
	a.cmd.Env = append(variables, childVar+"=1", "HOME="+dir, "PATH="+dir, "XDG_CACHE_HOME="+dir,
		traytest.RaceEnv)
	a.cmd.Stderr = &a.stderr
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(a.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			a.mu.Lock()
			a.lines = append(a.lines, lines.Text())
			a.mu.Unlock()
		}
	}()
	t.Cleanup(func() { a.finish() })
	return a
}

// finish ends the child and checks that it ended well: no panic, no data race.
func (a *app) finish() {
	if a.finished {
		return
	}
	a.finished = true
	_ = a.in.Close()
	timer := time.AfterFunc(15*time.Second, func() { _ = a.cmd.Process.Kill() })
	defer timer.Stop()
	<-a.done
	if err := a.cmd.Wait(); err != nil {
		a.t.Errorf("the tray's process: %v", err)
	}
	for _, race := range traytest.OurRaces(a.stderr.String()) {
		a.t.Errorf("data race:\n%s", race)
	}
	if a.count("left behind") > 0 && !a.leftBehind {
		a.t.Error("Run left goroutines behind")
	}
	if a.t.Failed() {
		a.t.Logf("the tray's process said:\n%s\nand to stderr:\n%s", strings.Join(a.lines, "\n"), a.stderr.String())
	}
	if !slices.Contains(a.lines, "ended") {
		a.t.Errorf("the tray did not end by itself; it said %q", a.lines)
	}
}

// set puts servers on the child's board.
func (a *app) set(servers ...status.Server) {
	a.t.Helper()
	a.update(status.Snapshot{Servers: servers})
}

func (a *app) update(s status.Snapshot) {
	a.t.Helper()
	if err := json.NewEncoder(a.in).Encode(s); err != nil {
		a.t.Fatal(err)
	}
}

// wait waits until the child has said line, for the n-th time.
func (a *app) wait(line string, n int) {
	a.t.Helper()
	err := traytest.Poll(10*time.Second, func() error {
		if a.count(line) >= n {
			return nil
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		return fmt.Errorf("%q not said %d times, but %q", line, n, a.lines)
	})
	if err != nil {
		a.t.Fatal(err)
	}
}

// count counts lines the child said that begin with line.
func (a *app) count(line string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, l := range a.lines {
		if strings.HasPrefix(l, line) {
			n++
		}
	}
	return n
}
