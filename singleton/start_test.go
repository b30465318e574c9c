package singleton

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serve answers each hello on l with w until l is closed; it calls seen, if not
// nil, with each hello.
func serve(t *testing.T, l net.Listener, w Welcome, seen func(Hello)) {
	t.Helper()
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				conn, h, err := Accept(context.Background(), nc)
				if err != nil {
					return
				}
				defer conn.Close()
				if seen != nil {
					seen(h)
				}
				if conn.Welcome(w) == nil {
					_, _ = conn.R.ReadByte() // until the peer hangs up
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
}

func at(dir string) func() (string, error) { return func() (string, error) { return dir, nil } }

func TestDial(t *testing.T) {
	dir := privateDir(t)
	if _, _, err := Dial(t.Context(), filepath.Join(dir, "missing"), Hello{}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("without a folder: %v", err)
	}
	if _, _, err := Dial(t.Context(), dir, Hello{}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("without a socket: %v", err)
	}
	mustDo(t, os.WriteFile(filepath.Join(dir, socketName), nil, 0o600))
	if _, _, err := Dial(t.Context(), dir, Hello{}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("with a file for a socket: %v", err)
	}
	_, l := listening(t, dir)
	hellos := make(chan Hello, 1)
	serve(t, l, Welcome{Version: "1.0", Session: "s"}, func(h Hello) { hellos <- h })
	conn, w, err := Dial(t.Context(), dir, Hello{Role: RoleBridge, Name: "funnel"})
	mustDo(t, err)
	defer conn.Close()
	if w.Session != "s" || w.Protocol != Protocol {
		t.Errorf("welcome %+v", w)
	}
	if h := <-hellos; h.PID != os.Getpid() || h.PPID != os.Getppid() || h.Protocol != Protocol || h.Name != "funnel" {
		t.Errorf("hello %+v", h)
	}
}

func TestDialRefused(t *testing.T) {
	dir := privateDir(t)
	_, l := listening(t, dir)
	serve(t, l, Welcome{Error: "not you"}, nil)
	start := func(context.Context) error { return errors.New("started beside a running one") }
	for _, dial := range []func() error{
		func() error { _, _, err := Dial(t.Context(), dir, Hello{Role: RoleBridge}); return err },
		func() error {
			_, _, err := DialOrStart(t.Context(), at(dir), Hello{Role: RoleBridge}, start)
			return err
		},
	} {
		if refused := wantError[*RefusedError](t, dial()); refused.Message != "not you" {
			t.Errorf("refused: %q", refused.Message)
		}
	}
}

func TestDialSilentInstance(t *testing.T) {
	dir := privateDir(t)
	listening(t, dir) // and nobody accepts
	stop := errors.New("stop")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, stop)
	defer cancel()
	_, _, err := Dial(ctx, dir, Hello{Role: RoleBridge})
	if !errors.Is(err, stop) || errors.Is(err, ErrNotRunning) {
		t.Errorf("error %v", err)
	}
}

// Ten bridges at once: one starts, all get through.
func TestDialOrStartStartsOnce(t *testing.T) {
	dir := privateDir(t)
	var starts atomic.Int32
	start := func(context.Context) error {
		starts.Add(1)
		time.Sleep(20 * time.Millisecond)
		go func() { // the app comes up a while after it was spawned
			time.Sleep(100 * time.Millisecond)
			inst, err := Acquire(dir, Info{})
			if err != nil {
				t.Error(err)
				return
			}
			l, err := inst.Listen()
			if err != nil {
				t.Error(err)
				return
			}
			serve(t, l, Welcome{Session: "s"}, nil)
			t.Cleanup(func() { inst.Close() })
		}()
		return nil
	}
	var bridges sync.WaitGroup
	for range 10 {
		bridges.Go(func() {
			conn, w, err := DialOrStart(t.Context(), at(dir), Hello{Role: RoleBridge}, start)
			if err != nil || w.Session != "s" {
				t.Errorf("%+v, %v", w, err)
				return
			}
			conn.Close()
		})
	}
	bridges.Wait()
	if n := starts.Load(); n != 1 {
		t.Errorf("started %d times", n)
	}
	info, err := os.Stat(filepath.Join(dir, startLockName))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("start.lock: %v, %v", info, err)
	}
}

// While an instance ends, or starts, nobody starts another: it would find the
// lock held and give up, and then there were none.
func TestDialOrStartWaitsForTheLock(t *testing.T) {
	dir := privateDir(t)
	ending, err := Acquire(dir, Info{})
	mustDo(t, err)
	var gone atomic.Bool
	start := func(context.Context) error {
		if !gone.Load() {
			t.Error("started while the lock was held")
		}
		_, l := listening(t, dir)
		serve(t, l, Welcome{Session: "second"}, nil)
		return nil
	}
	go func() {
		time.Sleep(100 * time.Millisecond)
		gone.Store(true)
		ending.Close()
	}()
	conn, w, err := DialOrStart(t.Context(), at(dir), Hello{Role: RoleBridge}, start)
	mustDo(t, err)
	defer conn.Close()
	if w.Session != "second" {
		t.Errorf("welcome %+v", w)
	}
}

func TestDialOrStartNeverStartsWithoutStart(t *testing.T) {
	dir := privateDir(t)
	stop := errors.New("stop")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, stop)
	defer cancel()
	_, _, err := DialOrStart(ctx, at(dir), Hello{Role: RoleBridge}, nil)
	if !errors.Is(err, stop) || !errors.Is(err, ErrNotRunning) {
		t.Errorf("error %v", err)
	}
	if got := names(t, dir); got != "" {
		t.Errorf("left: %s", got)
	}
	got := make(chan error, 1)
	go func() {
		conn, _, err := DialOrStart(t.Context(), at(dir), Hello{Role: RoleBridge}, nil)
		if err == nil {
			conn.Close()
		}
		got <- err
	}()
	time.Sleep(20 * time.Millisecond)
	_, l := listening(t, dir)
	serve(t, l, Welcome{Session: "s"}, nil)
	mustDo(t, <-got)
}

func TestDialOrStartTellsWhyNot(t *testing.T) {
	dir := privateDir(t)
	broken := errors.New("no such program")
	_, _, err := DialOrStart(t.Context(), at(dir), Hello{Role: RoleBridge}, func(context.Context) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	noDir := func() (string, error) { return "", &DirError{} }
	_, _, err = DialOrStart(t.Context(), noDir, Hello{Role: RoleBridge}, nil)
	wantError[*DirError](t, err)
}

// The next one may start when the one before could not.
func TestDialOrStartAfterAFailedStart(t *testing.T) {
	dir := privateDir(t)
	_, _, err := DialOrStart(t.Context(), at(dir), Hello{Role: RoleBridge}, func(context.Context) error { return errors.New("no") })
	if err == nil {
		t.Fatal("no error")
	}
	conn, _, err := DialOrStart(t.Context(), at(dir), Hello{Role: RoleBridge}, func(context.Context) error {
		_, l := listening(t, dir)
		serve(t, l, Welcome{}, nil)
		return nil
	})
	mustDo(t, err)
	conn.Close()
}

// The runtime folder may come with a log-in, while a bridge waits.
func TestDialOrStartAsksForTheFolderAnew(t *testing.T) {
	first, second := privateDir(t), privateDir(t)
	_, l := listening(t, second)
	serve(t, l, Welcome{Session: "second"}, nil)
	var asked int
	dir := func() (string, error) {
		asked++
		if asked < 3 {
			return first, nil
		}
		return second, nil
	}
	conn, w, err := DialOrStart(t.Context(), dir, Hello{Role: RoleBridge}, nil)
	mustDo(t, err)
	defer conn.Close()
	if w.Session != "second" {
		t.Errorf("welcome %+v", w)
	}
}
