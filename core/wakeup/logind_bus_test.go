//go:build linux || freebsd || openbsd || netbsd

package wakeup

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"mcp-funnel/tray/traytest"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// manager stands in for logind on a bus.
type manager struct {
	conn  *dbus.Conn
	rules chan string // what others ask to be told
}

func newManager(t *testing.T, bus *traytest.Bus) *manager {
	t.Helper()
	m := &manager{conn: bus.Connect(t), rules: make(chan string, 16)}
	if reply, err := m.conn.RequestName(logindName, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatalf("taking logind's name: %v, %v", reply, err)
	}
	monitor := bus.Connect(t)
	seen := make(chan *dbus.Message, 64)
	rules := []string{"type='method_call',member='AddMatch'"}
	if err := monitor.BusObject().Call("org.freedesktop.DBus.Monitoring.BecomeMonitor", 0, rules, uint32(0)).Err; err != nil {
		t.Fatalf("watching the bus: %v", err)
	}
	monitor.Eavesdrop(seen)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for msg := range seen { // it is closed with the connection
			if len(msg.Body) == 1 {
				if rule, ok := msg.Body[0].(string); ok {
					m.rules <- rule
				}
			}
		}
	}()
	t.Cleanup(func() { _ = monitor.Close(); <-ended })
	return m
}

// awaitListener returns once somebody listens for sleep.
func (m *manager) awaitListener(t *testing.T) {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case rule := <-m.rules:
			if !strings.Contains(rule, sleepSignal) {
				continue
			}
			if !strings.Contains(rule, "sender='"+logindName+"'") {
				t.Errorf("listens to anyone: %s", rule)
			}
			return
		case <-timeout:
			t.Fatal("nobody listens for sleep")
		}
	}
}

func emit(t *testing.T, conn *dbus.Conn, path dbus.ObjectPath, name string, body ...any) {
	t.Helper()
	if err := conn.Emit(path, name, body...); err != nil {
		t.Fatal(err)
	}
}

func (m *manager) prepareForSleep(t *testing.T, asleep bool) {
	t.Helper()
	emit(t, m.conn, logindPath, logindInterface+"."+sleepSignal, asleep)
}

// running runs f until the test ends, with what it reports.
func running(t *testing.T, f func(context.Context, func(Cause)) error) <-chan Cause {
	t.Helper()
	heard := make(chan Cause, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f(ctx, func(c Cause) { heard <- c }) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("did not end")
		}
	})
	return heard
}

// unmerged makes a source look like a watcher that merges nothing.
func unmerged(follow source) func(context.Context, func(Cause)) error {
	return func(ctx context.Context, notify func(Cause)) error {
		return follow(ctx, func(e event) {
			switch e {
			case resumeTold:
				notify(Resumed)
			case addressFound:
				notify(NetworkBack)
			case logindFound, logindLost:
			}
		})
	}
}

func await(t *testing.T, heard <-chan Cause, want Cause) {
	t.Helper()
	select {
	case c := <-heard:
		if c != want {
			t.Fatalf("reported %q, want %q", c, want)
		}
	case <-time.After(patience):
		t.Fatalf("%q was not reported", want)
	}
}

func silent(t *testing.T, heard <-chan Cause, d time.Duration) {
	t.Helper()
	select {
	case c := <-heard:
		t.Fatalf("reported %q too much", c)
	case <-time.After(d):
	}
}

// onBus is the watcher's environment with a bus.
func onBus(bus *traytest.Bus) func(string) string {
	return traytest.Environ(addressVar + "=" + bus.Address)
}

func TestLogindTellsOfAResumeOnce(t *testing.T) {
	bus := traytest.StartBus(t)
	m := newManager(t, bus)
	w := New(Options{Environ: onBus(bus), Log: slog.New(slog.DiscardHandler)})
	w.sources = w.sources[:1] // not this machine's network
	heard := running(t, w.Run)
	m.awaitListener(t)
	m.prepareForSleep(t, true)
	m.prepareForSleep(t, false)
	await(t, heard, Resumed)
	m.prepareForSleep(t, false)
	silent(t, heard, 300*time.Millisecond)
}

func TestOnlyTheEndOfASleepByLogindCounts(t *testing.T) {
	bus := traytest.StartBus(t)
	m := newManager(t, bus)
	l := newLogind(Options{Environ: onBus(bus), Log: slog.New(slog.DiscardHandler)})
	heard := running(t, unmerged(l.follow))
	m.awaitListener(t)
	emit(t, bus.Connect(t), logindPath, logindInterface+"."+sleepSignal, false) // not logind
	m.prepareForSleep(t, true)
	emit(t, m.conn, "/other", logindInterface+"."+sleepSignal, false)
	emit(t, m.conn, logindPath, logindInterface+".PrepareForShutdown", false)
	emit(t, m.conn, logindPath, logindInterface+"."+sleepSignal)
	emit(t, m.conn, logindPath, logindInterface+"."+sleepSignal, "false")
	silent(t, heard, 300*time.Millisecond)
	m.prepareForSleep(t, false)
	await(t, heard, Resumed)
	silent(t, heard, 100*time.Millisecond)
}

func TestClocksTakeOverWhenTheBusDies(t *testing.T) {
	bus := traytest.StartBus(t)
	m := newManager(t, bus)
	var log lockedBuffer
	w := New(Options{
		Environ: onBus(bus),
		Log:     slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	w.sources = w.sources[:1]
	w.often = 10 * time.Millisecond
	var ahead atomic.Int64
	w.clock.wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(ahead.Load())) }
	heard := running(t, w.Run)
	m.awaitListener(t)
	m.prepareForSleep(t, false)
	await(t, heard, Resumed)
	bus.Stop()
	err := traytest.Poll(patience, func() error {
		if !strings.Contains(log.String(), errBusLost.Error()) {
			return errors.New("the loss was not logged: " + log.String())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ahead.Add(int64(time.Hour))
	await(t, heard, Resumed)
	silent(t, heard, 200*time.Millisecond)
}

func TestBusIsFoundAgain(t *testing.T) {
	var address atomic.Value
	address.Store("unix:path=/nonexistent/bus")
	var log lockedBuffer
	l := newLogind(Options{
		Environ: func(string) string { return address.Load().(string) },
		Log:     slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	l.pause = 5 * time.Millisecond
	heard := running(t, unmerged(l.follow))
	silent(t, heard, 100*time.Millisecond) // some twenty attempts
	for range 2 {
		bus := traytest.StartBus(t)
		m := newManager(t, bus)
		address.Store(bus.Address)
		m.awaitListener(t)
		m.prepareForSleep(t, false)
		await(t, heard, Resumed)
		bus.Stop()
	}
	silent(t, heard, 100*time.Millisecond)
	if n := strings.Count(log.String(), "level=DEBUG"); n != 3 { // missing, lost, lost
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}

func TestBusThatDoesNotAnswerIsGivenUp(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "wakeup-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "bus")
	mute, err := net.Listen("unix", path) // takes connections by its backlog
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	l := newLogind(Options{Environ: traytest.Environ(addressVar + "=unix:path=" + path), Log: slog.New(slog.DiscardHandler)})
	l.deadline = 50 * time.Millisecond
	if err := l.listen(t.Context(), func(event) {}); !errors.Is(err, errBusSlow) {
		t.Errorf("error %v, want %v", err, errBusSlow)
	}
	l.deadline = time.Hour // and Run does not wait for it
	running(t, unmerged(l.follow))
	time.Sleep(50 * time.Millisecond)
}

func TestFrozenBusIsGivenUp(t *testing.T) {
	bus := traytest.StartBus(t)
	if err := bus.Freeze(); err != nil {
		t.Fatal(err)
	}
	l := newLogind(Options{Environ: onBus(bus), Log: slog.New(slog.DiscardHandler)})
	l.deadline = 50 * time.Millisecond
	if err := l.listen(t.Context(), func(event) {}); !errors.Is(err, errBusSlow) {
		t.Errorf("error %v, want %v", err, errBusSlow)
	}
}

func TestBusWithoutLogindIsGivenUp(t *testing.T) {
	bus := traytest.StartBus(t)
	l := newLogind(Options{Environ: onBus(bus), Log: slog.New(slog.DiscardHandler)})
	err := l.listen(t.Context(), func(e event) { t.Errorf("said %d", e) })
	if !errors.Is(err, errNoLogind) {
		t.Errorf("error %v, want %v", err, errNoLogind)
	}
}

func TestAddressOfTheBus(t *testing.T) {
	tests := []struct{ value, want string }{
		{"", defaultAddress},
		{"unix:path=/x", "unix:path=/x"},
		{"unix:path=/x;unix:abstract=y", "unix:path=/x;unix:abstract=y"},
		{"autolaunch:", ""},
		{"tcp:host=127.0.0.1,port=1", ""},
		{"unix:path=/x;tcp:host=127.0.0.1,port=1", ""},
		{"unixexec:path=/bin/false", ""},
	}
	for _, test := range tests {
		l := newLogind(Options{Environ: traytest.Environ(addressVar + "=" + test.value)})
		got, err := l.address()
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%q: address %q, error %v; want %q", test.value, got, err, test.want)
		}
		if err != nil && !errors.Is(err, errBusAddress) {
			t.Errorf("%q: error %v, want %v", test.value, err, errBusAddress)
		}
	}
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(slices.Clone(b.buf.Bytes()))
}
