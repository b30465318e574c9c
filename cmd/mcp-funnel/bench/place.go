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
	"syscall"
	"time"
)

// place is a private folder with everything the program reads and writes.
type place struct {
	program, self string
	dir           string
	environ       []string
}

// folders are those of a user, replaced by ones of our own.
var folders = map[string]string{ //nolint:gochecknoglobals // it never changes
	"HOME": "home", "XDG_RUNTIME_DIR": "run", "XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state",
	"XDG_CACHE_HOME": "cache", "XDG_DATA_HOME": "data",
}

func newPlace(program string) (*place, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program's file: %w", err)
	}
	// Not the usual folder for temporary files: the path of a socket must be short.
	dir, err := os.MkdirTemp("/tmp", "mcp-funnel-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	p := &place{program: program, self: self, dir: dir, environ: []string{"PATH=" + os.Getenv("PATH"), "SHELL=/bin/sh"}}
	for name, folder := range folders {
		path := filepath.Join(dir, folder)
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("making a folder: %w", err), p.remove())
		}
		p.environ = append(p.environ, name+"="+path)
	}
	return p, nil
}

func (p *place) remove() error { return os.RemoveAll(p.dir) }

// config writes a config of one server with that many tools, called "bench", and
// returns its path.
func (p *place) config(tools int) (string, error) {
	type entry struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]entry{"bench": {p.self, echoArgs(tools)}}})
	if err != nil {
		return "", fmt.Errorf("encoding the config: %w", err)
	}
	path := filepath.Join(p.dir, "config.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", fmt.Errorf("writing the config: %w", err)
	}
	return path, nil
}

// runtimeDir is where the app's socket is.
func (p *place) runtimeDir() string { return filepath.Join(p.dir, "run", "mcp-funnel") }

// command is a process in this place; it ends with ctx at the latest.
func (p *place) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Dir, cmd.Stderr = p.environ, p.dir, os.Stderr
	return cmd
}

// bridge is a client's command.
func (p *place) bridge(ctx context.Context) *exec.Cmd {
	return p.command(ctx, p.program, "bridge", "--no-start")
}

// running is a process beside the one that is measured.
type running struct{ cmd *exec.Cmd }

// startApp starts the app over one server with that many tools and waits until they
// are listed.
func (p *place) startApp(ctx context.Context, tools int) (*running, error) {
	config, err := p.config(tools)
	if err != nil {
		return nil, err
	}
	var said bytes.Buffer
	app := p.command(ctx, p.program, "serve", "--config", config)
	app.Stderr = &said
	if err := app.Start(); err != nil {
		return nil, fmt.Errorf("starting the app: %w", err)
	}
	r := &running{app}
	if err := p.untilListed(ctx, tools); err != nil {
		return nil, errors.Join(err, r.stop(), fmt.Errorf("the app said:\n%s", said.String()))
	}
	return r, nil
}

// untilListed waits until the app lists so many tools.
func (p *place) untilListed(ctx context.Context, tools int) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for {
		status := p.command(ctx, p.program, "status", "--json")
		status.Stderr = nil
		text, _ := status.Output() // fails until the app answers
		if strings.Contains(strings.ReplaceAll(string(text), " ", ""), fmt.Sprintf(`"tools":%d`, tools)) {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for the app to list %d tools: %w", tools, err)
		}
	}
}

// stop ends the process politely and joins it.
func (r *running) stop() error {
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", r.cmd.Path, err)
	}
	_ = r.cmd.Wait() // how it ends upon a signal is its own affair
	return nil
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
