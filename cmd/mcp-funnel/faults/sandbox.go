//go:build linux

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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"mcp-funnel/core"
	"mcp-funnel/core/status"
)

// sandbox is a user with a home, folders, a config and an app of their own.
type sandbox struct {
	program, self string
	dir           string
	// runtimeDir is XDG_RUNTIME_DIR, in memory where that is possible, as it is on
	// desktops: the app syncs its list of processes there at each start of a server.
	runtimeDir string
	environ    []string
	// app is the running one, nil when there is none, and said its stderr.
	app  *exec.Cmd
	said *lockedBuffer
	// asked and events are attached to it.
	asked  *control
	events *watcher
	// sessions are closed at the end.
	sessions []*session
	// cleanups run at the end, the last one first.
	cleanups []func()
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

func newSandbox(program, self string) (*sandbox, error) {
	// Not the usual folder for temporary files: the path of a socket must be short.
	dir, err := os.MkdirTemp("/tmp", "mcpf-faults-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	s := &sandbox{program: program, self: self, dir: dir, environ: []string{
		markVariable + "=" + dir, "PATH=" + os.Getenv("PATH"), "SHELL=/bin/sh", "LANG=C.UTF-8",
		// No bus of this machine: what it says of sleep and networks is no part of this.
		"DBUS_SYSTEM_BUS_ADDRESS=unix:path=" + filepath.Join(dir, "no-bus"),
	}}
	for name, folder := range map[string]string{
		"HOME": "home", "XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state",
		"XDG_CACHE_HOME": "cache", "XDG_DATA_HOME": "data", "TMPDIR": "tmp",
	} {
		if err := os.Mkdir(s.path(folder), 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("making a folder: %w", err), os.RemoveAll(dir))
		}
		s.environ = append(s.environ, name+"="+s.path(folder))
	}
	if s.runtimeDir, err = os.MkdirTemp("/dev/shm", "mcpf-faults-"); err != nil {
		s.runtimeDir = s.path("run")
		if err := os.Mkdir(s.runtimeDir, 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("making a folder: %w", err), os.RemoveAll(dir))
		}
	}
	s.environ = append(s.environ, "XDG_RUNTIME_DIR="+s.runtimeDir)
	return s, nil
}

func (s *sandbox) path(name string) string { return filepath.Join(s.dir, name) }

// setenv replaces a variable of the processes started from now on.
func (s *sandbox) setenv(name, value string) {
	s.environ = slices.DeleteFunc(s.environ, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	s.environ = append(s.environ, name+"="+value)
}

// cleanup has f called at the end.
func (s *sandbox) cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// entry is a server in the config.
type entry struct {
	Type             string            `json:"type,omitempty"`
	URL              string            `json:"url,omitempty"`
	Command          string            `json:"command,omitempty"`
	Args             []string          `json:"args,omitempty"`
	Env              map[string]string `json:"env,omitempty"`
	CallTimeoutMs    int               `json:"callTimeoutMs,omitempty"`
	StartupTimeoutMs int               `json:"startupTimeoutMs,omitempty"`
	Reconnect        reconnect         `json:"reconnect,omitzero"`
}

// reconnect is that section of the config; what is 0 has its default.
type reconnect struct {
	MaxAttempts         int `json:"maxAttempts,omitempty"`
	InitialDelayMs      int `json:"initialDelayMs,omitempty"`
	MaxDelayMs          int `json:"maxDelayMs,omitempty"`
	SlowProbeIntervalMs int `json:"slowProbeIntervalMs,omitempty"`
	StableAfterMs       int `json:"stableAfterMs,omitempty"`
}

// quick gives up soon, and then waits for a minute.
func quick() reconnect {
	return reconnect{MaxAttempts: 2, InitialDelayMs: 50, StableAfterMs: 100}
}

// servers are entries by name.
type servers map[string]entry

// own is the fault server as an entry; args are its flags.
func (s *sandbox) own(args ...string) entry {
	return entry{Command: s.self, Args: append([]string{"server"}, args...), Reconnect: quick()}
}

// start starts an app over these servers and attaches to it. It does not wait for
// the servers.
func (s *sandbox) start(ctx context.Context, all servers) error {
	text, err := json.Marshal(map[string]any{"mcpServers": all})
	if err != nil {
		return fmt.Errorf("encoding the config: %w", err)
	}
	if err := os.WriteFile(s.path("config.json"), text, 0o600); err != nil {
		return fmt.Errorf("writing the config: %w", err)
	}
	return s.startApp(ctx)
}

// startApp starts an app over the config that is there.
func (s *sandbox) startApp(ctx context.Context) error {
	cmd := s.command("serve", "--config", s.path("config.json"))
	s.said = &lockedBuffer{}
	cmd.Stderr = s.said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the app: %w", err)
	}
	s.app = cmd
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not in %v", patience))
	defer cancel()
	runtimeDir := filepath.Join(s.runtimeDir, "mcp-funnel")
	for {
		var err error
		if s.asked, err = dialControl(ctx, runtimeDir); err == nil {
			break
		}
		if pauseErr := pause(ctx, 10*time.Millisecond); pauseErr != nil {
			return fmt.Errorf("%w; the app said:\n%s", err, s.said)
		}
	}
	var err error
	s.events, err = watch(ctx, runtimeDir)
	return err
}

// command prepares a command of the program. It does not end with a context, since
// the app would die by SIGKILL then.
func (s *sandbox) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.program, args...)
	cmd.Env, cmd.Dir = s.environ, s.path("home")
	return cmd
}

// attach opens a session through a bridge.
func (s *sandbox) attach(ctx context.Context) (*session, error) {
	c, err := open(ctx, s.command("bridge", "--no-start"))
	if err != nil {
		return nil, fmt.Errorf("attaching a bridge: %w", err)
	}
	s.sessions = append(s.sessions, c)
	return c, nil
}

// status is the app's.
func (s *sandbox) status(ctx context.Context) (core.Report, error) {
	var r core.Report
	err := s.asked.ask(ctx, "status", struct{}{}, &r)
	return r, err
}

// server is the status of one server.
func (s *sandbox) server(ctx context.Context, name string) (status.Server, error) {
	r, err := s.status(ctx)
	if err != nil {
		return status.Server{}, err
	}
	i := slices.IndexFunc(r.Servers, func(one status.Server) bool { return one.Name == name })
	if i < 0 {
		return status.Server{}, fmt.Errorf("the app knows no server %q", name)
	}
	return r.Servers[i], nil
}

// until waits until the named server is as wanted; what says what that is.
func (s *sandbox) until(ctx context.Context, name, what string, wanted func(status.Server) bool) (status.Server, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not in %v", patience))
	defer cancel()
	for {
		one, err := s.server(ctx, name)
		if err != nil {
			return one, err
		}
		if wanted(one) {
			return one, nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return one, fmt.Errorf("%s is not %s: %w; it is %s: %s", name, what, err, one.State, one.LastError)
		}
	}
}

// in waits for a state.
func (s *sandbox) in(ctx context.Context, name string, state status.State) (status.Server, error) {
	return s.until(ctx, name, string(state), func(one status.Server) bool { return one.State == state })
}

// reconnect is the command of that name, for the server "one".
func (s *sandbox) reconnect(ctx context.Context) error {
	return s.asked.ask(ctx, "reconnect", map[string]string{"name": "one"}, nil)
}

// strays are the processes of servers that the app has no record of any more, once
// they had a moment to end.
func (s *sandbox) strays(ctx context.Context) []process {
	return s.settled(ctx, time.Second, func() []process {
		content, _ := os.ReadFile(filepath.Join(s.runtimeDir, "mcp-funnel", "children.json")) // without children there is none
		return slices.DeleteFunc(marked(s.dir), func(p process) bool {
			return p.tag == "" || bytes.Contains(content, []byte(`"`+p.tag+`"`))
		})
	})
}

// settled asks list until nothing is left, at most for that long.
func (s *sandbox) settled(ctx context.Context, atMost time.Duration, list func() []process) []process {
	deadline := time.Now().Add(atMost)
	for {
		left := list()
		if len(left) == 0 || time.Now().After(deadline) || pause(ctx, 20*time.Millisecond) != nil {
			return left
		}
	}
}

// eventually polls until something holds; what says what that is.
func eventually(ctx context.Context, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not in %v: %s", patience, what))
	defer cancel()
	for !holds() {
		if err := pause(ctx, 100*time.Microsecond); err != nil {
			return err
		}
	}
	return nil
}

// kill ends the app as `kill -9` does.
func (s *sandbox) kill() error {
	s.detach()
	if err := signal(s.app.Process.Pid, syscall.SIGKILL); err != nil {
		return err
	}
	_ = s.app.Wait() // it was killed
	s.app = nil
	return nil
}

func (s *sandbox) detach() {
	if s.asked != nil {
		s.asked.close()
	}
	if s.events != nil {
		s.events.control.close()
	}
	s.asked, s.events = nil, nil
}

// quit ends sessions and app, and returns how long the app took and what is left.
func (s *sandbox) quit(ctx context.Context) (took time.Duration, left []process) {
	for _, one := range s.sessions {
		one.close()
	}
	s.sessions = nil
	s.detach()
	if s.app != nil {
		begun := time.Now()
		_ = s.app.Process.Signal(syscall.SIGTERM) // it may have ended
		stop := time.AfterFunc(patience, func() { _ = s.app.Process.Kill() })
		_ = s.app.Wait()
		stop.Stop()
		took = time.Since(begun)
		s.app = nil
	}
	return took, s.settled(ctx, time.Second, func() []process { return marked(s.dir) })
}

// remove ends whatever is left and removes everything.
func (s *sandbox) remove() error {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
	for range 3 { // one that was just started may have missed the first round
		for _, p := range marked(s.dir) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended
		}
	}
	return errors.Join(os.RemoveAll(s.dir), os.RemoveAll(s.runtimeDir))
}

// pause waits; it fails when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
