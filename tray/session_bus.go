//go:build linux || freebsd || openbsd || netbsd

package tray

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"mcp-funnel/core/status"
)

const (
	// watcherName belongs to whoever shows tray icons: a panel, or GNOME's extension.
	watcherName = "org.kde.StatusNotifierWatcher"
	watcherPath = "/StatusNotifierWatcher"
	// itemPath is where the tray library puts the icon.
	itemPath = "/StatusNotifierItem"
	// busDeadline is how long the session bus may take for an answer.
	busDeadline = 2 * time.Second
	addressVar  = "DBUS_SESSION_BUS_ADDRESS"
	runtimeVar  = "XDG_RUNTIME_DIR"
)

// Usable reports whether there is a desktop to show a tray on: nil when a
// session bus answers, at DBUS_SESSION_BUS_ADDRESS or else at
// $XDG_RUNTIME_DIR/bus. Otherwise the error wraps [ErrUnavailable] and says
// what is missing and what mends it. No bus is ever started for it; whether
// a panel is there does not matter, it may come later.
func Usable(ctx context.Context, environ func(string) string) error {
	conn, _, err := connect(ctx, environ)
	if err != nil {
		return err
	}
	_ = conn.Close() // it was only asked whether it answers
	return nil
}

// connect opens a connection of its own to the session bus.
func connect(ctx context.Context, environ func(string) string) (*dbus.Conn, string, error) {
	address, err := busAddress(environ)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, busDeadline)
	defer cancel()
	conn, err := dialBus(ctx, address)
	if err != nil {
		return nil, "", fmt.Errorf("%w: the session bus at %s does not answer (%w); start mcp-funnel in your desktop session",
			ErrUnavailable, address, err)
	}
	return conn, address, nil
}

// busAddress finds the session bus without starting one. The bus library would
// run dbus-launch where the variable is not set, and so make a second bus with
// no desktop on it; therefore it must only ever be given an address from here.
func busAddress(environ func(string) string) (string, error) {
	if address := environ(addressVar); address != "" && address != "autolaunch:" {
		return address, nil
	}
	dir := environ(runtimeVar)
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("%w: no session bus, neither %s nor %s is set; start mcp-funnel in your desktop session",
			ErrUnavailable, addressVar, runtimeVar)
	}
	path := filepath.Join(dir, "bus")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: no session bus, %s is not set and there is none in %s (%w); start mcp-funnel in your desktop session",
			ErrUnavailable, addressVar, runtimeVar, err)
	}
	return "unix:path=" + dbus.EscapeBusAddressValue(path), nil
}

// dialBus connects and fails when ctx ends first; the connection outlives ctx.
func dialBus(ctx context.Context, address string) (*dbus.Conn, error) {
	alive, kill := context.WithCancel(context.WithoutCancel(ctx))
	intime := context.AfterFunc(ctx, kill)
	conn, err := dbus.Connect(address, dbus.WithContext(alive))
	if err != nil {
		kill()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("connecting to the session bus: %w", err)
	}
	if !intime() {
		kill()
		return nil, context.Cause(ctx)
	}
	return conn, nil
}

// session is the desktop session that a tray is shown in.
type session struct {
	// own is the tray's connection: it watches the panel and the bus.
	own *dbus.Conn
	// shared is the connection that the tray library uses.
	shared  *dbus.Conn
	address string
	// opened has a token when a panel was about to show the menu (see opened_bus.go).
	opened chan struct{}
}

// openSession connects to the session bus twice: for ourselves, and the
// connection that the bus library shares in the process, which the tray library
// is going to use. The latter finds the bus by the process' own environment
// only, and runs dbus-launch when the variable is not there: so it is put there.
func openSession(ctx context.Context, environ func(string) string) (*session, error) {
	own, address, err := connect(ctx, environ)
	if err != nil {
		return nil, err
	}
	if os.Getenv(addressVar) != address {
		if err := os.Setenv(addressVar, address); err != nil {
			_ = own.Close()
			return nil, fmt.Errorf("%w: setting %s: %w", ErrUnavailable, addressVar, err)
		}
	}
	shared, err := dbus.SessionBus()
	if err != nil {
		_ = own.Close()
		return nil, fmt.Errorf("%w: the session bus at %s does not answer (%w); start mcp-funnel in your desktop session",
			ErrUnavailable, address, err)
	}
	return &session{own: own, shared: shared, address: address, opened: make(chan struct{}, 1)}, nil
}

// wait blocks until ctx ends, and returns nil then, or until the bus is lost.
// Neither library connects again, and the tray library cannot start again.
func (s *session) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.own.Context().Done():
	case <-s.shared.Context().Done():
	}
	return fmt.Errorf("%w: the connection to the session bus was lost; start mcp-funnel again in your desktop session",
		ErrUnavailable)
}

// close ends both connections, which takes the icon away.
func (s *session) close() {
	_ = s.own.Close() // what was not sent is of no use any more
	_ = s.shared.Close()
}

// registerGrace is how long the tray library has for registering the icon at a
// panel that has just started.
const registerGrace = time.Second

// follow publishes whether somebody shows tray icons, now and whenever that
// changes, and sees to it that the icon is registered there, until ctx ends or
// the bus is lost.
func (s *session) follow(ctx context.Context, publish func(status.Tray)) error {
	signals := make(chan *dbus.Signal, 16)
	s.own.Signal(signals)
	defer s.own.RemoveSignal(signals)
	err := s.own.AddMatchSignalContext(ctx,
		dbus.WithMatchSender("org.freedesktop.DBus"),
		dbus.WithMatchInterface("org.freedesktop.DBus"),
		dbus.WithMatchMember("NameOwnerChanged"),
		dbus.WithMatchArg(0, watcherName))
	if err != nil {
		return fmt.Errorf("watching for a panel: %w", err)
	}
	check := time.NewTimer(registerGrace)
	defer check.Stop()
	var last *bool
	for {
		// A bus that does not answer now leaves the board as it is.
		if shown, err := s.hasPanel(ctx); err == nil && (last == nil || *last != shown) {
			last = &shown
			publish(trayState(shown))
		}
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-signals:
			if !ok {
				return nil // the connection has ended, which wait reports
			}
			check.Reset(registerGrace)
		case <-check.C:
			if last != nil && *last {
				s.register(ctx)
			}
		}
	}
}

// register offers the icon to the panel if the tray library has not done so: it
// first asks for a panel and only then begins to watch for one, and so misses a
// panel that starts in between, as at log-in. A panel that cannot be asked, or
// refuses, is left alone; the next one is tried again.
func (s *session) register(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, busDeadline)
	defer cancel()
	watcher := s.shared.Object(watcherName, watcherPath)
	var items dbus.Variant
	err := watcher.CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0,
		watcherName, "RegisteredStatusNotifierItems").Store(&items)
	names, ok := items.Value().([]string)
	if err != nil || !ok || slices.ContainsFunc(names, s.isOurs) {
		return
	}
	_ = watcher.CallWithContext(ctx, watcherName+".RegisterStatusNotifierItem", 0, itemPath).Err
}

// isOurs reports whether a watcher's name of an icon, a bus name and perhaps a
// path after it, means our icon.
func (s *session) isOurs(item string) bool {
	name, _, _ := strings.Cut(item, "/")
	return slices.Contains(s.shared.Names(), name)
}

func (s *session) hasPanel(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, busDeadline)
	defer cancel()
	var owned bool
	err := s.own.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, watcherName).Store(&owned)
	if err != nil {
		return false, fmt.Errorf("asking for a panel: %w", err)
	}
	return owned, nil
}

func trayState(shown bool) status.Tray {
	if shown {
		return status.Tray{Shown: true}
	}
	return status.Tray{Reason: "no panel shows tray icons; on GNOME install the AppIndicator extension"}
}
