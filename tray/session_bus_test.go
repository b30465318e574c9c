//go:build linux

package tray

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-funnel/tray/traytest"
)

func TestUsableWithABus(t *testing.T) {
	bus := traytest.StartBus(t)
	for name, environ := range map[string]func(string) string{
		"address":     traytest.Environ("DBUS_SESSION_BUS_ADDRESS="+bus.Address, "XDG_RUNTIME_DIR=/nonexistent"),
		"runtime dir": traytest.Environ("XDG_RUNTIME_DIR=" + bus.RuntimeDir),
		"no display":  traytest.Environ("DISPLAY=", "DBUS_SESSION_BUS_ADDRESS="+bus.Address),
	} {
		if err := Usable(t.Context(), environ); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// C112: the error says what is missing and what mends it.
func TestC112_UsableSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		variables []string
		want      string
	}{
		"nothing":            {nil, "neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR is set"},
		"relative":           {[]string{"XDG_RUNTIME_DIR=run"}, "neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR is set"},
		"no bus in the dir":  {[]string{"XDG_RUNTIME_DIR=" + dir}, "there is none in XDG_RUNTIME_DIR"},
		"dead address":       {[]string{"DBUS_SESSION_BUS_ADDRESS=unix:path=" + dir + "/bus"}, "does not answer"},
		"not a socket":       {[]string{"DBUS_SESSION_BUS_ADDRESS=unix:path=" + file}, "does not answer"},
		"not an address":     {[]string{"DBUS_SESSION_BUS_ADDRESS=nonsense"}, "does not answer"},
		"autolaunch":         {[]string{"DBUS_SESSION_BUS_ADDRESS=autolaunch:"}, "no session bus"},
		"autolaunch, no bus": {[]string{"DBUS_SESSION_BUS_ADDRESS=autolaunch:", "XDG_RUNTIME_DIR=" + dir}, "no session bus"},
	} {
		err := Usable(t.Context(), traytest.Environ(c.variables...))
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(err.Error(), "; start mcp-funnel in your desktop session") {
			t.Errorf("%s: %q does not say %q and what to do", name, err, c.want)
		}
	}
}

// The bus library runs dbus-launch for want of an address; we never let it.
func TestC112_NoBusIsLaunched(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	script := "#!/bin/sh\n: >" + trace + "\n"
	if err := os.WriteFile(filepath.Join(dir, "dbus-launch"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	t.Setenv("XDG_RUNTIME_DIR", "")
	if err := Usable(t.Context(), os.Getenv); err == nil {
		t.Error("usable without a bus")
	}
	if err := New(Options{Board: nil, Log: nil}).Run(cancelled(t)); err != nil {
		t.Errorf("Run after its context ended: %v", err)
	}
	n := NewNotifier(os.Getenv)
	defer n.Close()
	if err := n.Notify(t.Context(), Notice{Title: "t"}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a notice without a bus: %v", err)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("dbus-launch was run")
	}
}

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestC112_BusThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "tray-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	listener, err := net.Listen("unix", filepath.Join(dir, "bus")) // its connections are never accepted
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	environ := traytest.Environ("XDG_RUNTIME_DIR=" + dir)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := Usable(ctx, environ); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("with a deadline: %v", err)
	}
	if err := Usable(t.Context(), environ); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without one: %v", err)
	}
}
