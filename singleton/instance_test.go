package singleton

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcp-funnel/singleton/process"
)

// listening acquires dir and listens; both end with the test.
func listening(t *testing.T, dir string) (*Instance, net.Listener) {
	t.Helper()
	inst, err := Acquire(dir, Info{Version: "1.0", Config: "/config.json", Mode: ModeTray})
	mustDo(t, err)
	t.Cleanup(func() { inst.Close() })
	l, err := inst.Listen()
	mustDo(t, err)
	return inst, l
}

// names lists dir.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	mustDo(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestInvariant1_OneLockHolder(t *testing.T) {
	dir := privateDir(t)
	first, _ := listening(t, dir)
	_, err := Acquire(dir, Info{})
	running := wantError[*RunningError](t, err)
	if running.Info != first.Info() {
		t.Errorf("the holder is told as %+v, not %+v", running.Info, first.Info())
	}
	if want := "already running (pid " + strconv.Itoa(os.Getpid()) + ")"; err.Error() != want {
		t.Errorf("message %q, want %q", err, want)
	}
	mustDo(t, first.Close())
	second, err := Acquire(dir, Info{})
	mustDo(t, err)
	mustDo(t, second.Close())
}

// Acquire alone leaves the socket, stale or not, where it is.
func TestInvariant1_OnlyListenTouchesTheSocket(t *testing.T) {
	dir := privateDir(t)
	first, _ := listening(t, dir)
	before, err := os.Lstat(filepath.Join(dir, socketName))
	mustDo(t, err)
	for range 3 {
		if _, err := Acquire(dir, Info{}); err == nil {
			t.Fatal("two holders")
		}
	}
	after, err := os.Lstat(filepath.Join(dir, socketName))
	mustDo(t, err)
	if !os.SameFile(before, after) {
		t.Error("the socket was replaced")
	}
	mustDo(t, first.check())
}

// One that merely looks whether the lock is held does not keep others from it.
func TestInvariant1_LookingIsNotHolding(t *testing.T) {
	dir := privateDir(t)
	mustDo(t, os.WriteFile(filepath.Join(dir, lockName), nil, 0o600))
	stop := make(chan struct{})
	looked := make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				looked <- nil
				return
			default:
			}
			if _, err := held(dir); err != nil {
				looked <- err
				return
			}
		}
	}()
	for range 50 {
		inst, err := Acquire(dir, Info{})
		if err != nil {
			t.Fatal(err)
		}
		if busy, err := held(dir); !busy || err != nil {
			t.Fatalf("held: %v, %v", busy, err)
		}
		mustDo(t, inst.Close())
	}
	close(stop)
	mustDo(t, <-looked)
}

// Those who look at the same time do not take each other for a holder.
func TestInvariant1_LookersDoNotSeeEachOther(t *testing.T) {
	dir := privateDir(t)
	mustDo(t, os.WriteFile(filepath.Join(dir, lockName), nil, 0o600))
	var lookers sync.WaitGroup
	for range 8 {
		lookers.Go(func() {
			for range 200 {
				if busy, err := held(dir); busy || err != nil {
					t.Errorf("held: %v, %v", busy, err)
					return
				}
			}
		})
	}
	lookers.Wait()
}

// A lock on a file that is no longer at the path is none: whoever makes the file
// anew holds one as well. Each holder here removes the file, as we never do.
func TestInvariant1_ExchangedLockFile(t *testing.T) {
	path := filepath.Join(privateDir(t), lockName)
	var holders atomic.Int32
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 500 {
				l, err := tryLock(path)
				if err != nil {
					t.Error(err)
				}
				if l == nil {
					continue
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d holders", n)
				}
				runtime.Gosched()
				holders.Add(-1)
				if err := errors.Join(os.Remove(path), l.Unlock()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
}

// What a dead instance left behind is not told as the holder.
func TestStaleInfoIsNotTheHolder(t *testing.T) {
	dir := privateDir(t)
	inst, err := Acquire(dir, Info{}) // and does not listen yet
	mustDo(t, err)
	defer inst.Close()
	mustDo(t, os.WriteFile(filepath.Join(dir, infoName), []byte(`{"pid":1073741824,"startTime":"x"}`), 0o600))
	_, err = Acquire(dir, Info{})
	wantError[*RunningError](t, err)
	if err.Error() != "already running" {
		t.Errorf("message %q", err)
	}
}

func TestListenWritesWhoWeAre(t *testing.T) {
	dir := privateDir(t)
	inst, _ := listening(t, dir)
	pid, err := os.ReadFile(filepath.Join(dir, pidName))
	if want := strconv.Itoa(os.Getpid()) + "\n"; err != nil || string(pid) != want {
		t.Errorf("the pid file says %q, %v, want %q", pid, err, want)
	}
	start, err := process.StartTime(os.Getpid())
	mustDo(t, err)
	exe, err := process.Exe(os.Getpid())
	mustDo(t, err)
	want := Info{os.Getpid(), start, exe, "1.0", "/config.json", ModeTray}
	if got, err := ReadInfo(dir); err != nil || got != want {
		t.Errorf("funnel.json says %+v, %v, want %+v", got, err, want)
	}
	mustDo(t, inst.SetMode(ModeHeadless))
	want.Mode = ModeHeadless
	if got, err := ReadInfo(dir); err != nil || got != want || inst.Info() != want {
		t.Errorf("funnel.json says %+v, %v, want %+v", got, err, want)
	}
	if _, err := inst.Listen(); err == nil {
		t.Error("listening twice")
	}
	if got := names(t, dir); got != "funnel.json funnel.lock funnel.pid funnel.sock" {
		t.Errorf("in the folder: %s", got)
	}
	mustDo(t, inst.Close())
	mustDo(t, inst.Close())
	if got := names(t, dir); got != lockName {
		t.Errorf("after the end: %s", got)
	}
	if _, err := inst.Listen(); err == nil {
		t.Error("listening after the end")
	}
}

func TestModeSetBeforeListening(t *testing.T) {
	dir := privateDir(t)
	inst, err := Acquire(dir, Info{Mode: ModeTray})
	mustDo(t, err)
	defer inst.Close()
	mustDo(t, inst.SetMode(ModeHeadless))
	if got := names(t, dir); got != lockName {
		t.Errorf("before listening: %s", got)
	}
	_, err = inst.Listen()
	mustDo(t, err)
	if info, err := ReadInfo(dir); err != nil || info.Mode != ModeHeadless {
		t.Errorf("%+v, %v", info, err)
	}
}

// A closed listener leaves the path alone: that is for Close, under the lock.
func TestInvariant1_ListenerDoesNotUnlink(t *testing.T) {
	dir := privateDir(t)
	_, l := listening(t, dir)
	mustDo(t, l.Close())
	mustDo(t, l.Close())
	if _, err := os.Lstat(filepath.Join(dir, socketName)); err != nil {
		t.Error(err)
	}
	if _, _, err := Dial(t.Context(), dir, Hello{}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("dialling gave %v", err)
	}
}

func TestGuard(t *testing.T) {
	replace := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			path := filepath.Join(dir, name)
			mustDo(t, os.Rename(path, path+".old"))
			mustDo(t, os.WriteFile(path, []byte("another's"), 0o600))
		}
	}
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		path  string // "" when nothing is displaced
	}{
		{"nothing", func(*testing.T, string) {}, ""},
		{"json replaced", replace(infoName), ""},
		{"lock replaced", replace(lockName), lockName},
		{"socket replaced", replace(socketName), socketName},
		{"pid replaced", replace(pidName), pidName},
		{"lock removed", func(t *testing.T, dir string) {
			t.Helper()
			mustDo(t, os.Remove(filepath.Join(dir, lockName)))
		}, lockName},
		{"folder removed", func(t *testing.T, dir string) {
			t.Helper()
			mustDo(t, os.RemoveAll(dir))
		}, lockName},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := privateDir(t)
			inst, _ := listening(t, dir)
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				stop := errors.New("stop")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(10*time.Minute, func() { cancel(stop) })
				time.AfterFunc(45*time.Second, func() { tc.spoil(t, dir) })
				err := inst.Guard(ctx)
				if tc.path == "" {
					if !errors.Is(err, stop) {
						t.Errorf("ended with %v", err)
					}
					return
				}
				displaced := wantError[*DisplacedError](t, err)
				if displaced.Path != filepath.Join(dir, tc.path) {
					t.Errorf("displaced: %v", displaced)
				}
				if took := time.Since(began); took != time.Minute {
					t.Errorf("noticed after %v", took)
				}
			})
		})
	}
}

// Cleaners of /tmp take what was not touched for days.
func TestGuardKeepsFilesFresh(t *testing.T) {
	dir := privateDir(t)
	inst, _ := listening(t, dir)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), touchEvery+time.Second)
		defer cancel()
		if err := inst.Guard(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		for _, name := range []string{"", lockName, pidName, infoName, socketName} {
			info, err := os.Lstat(filepath.Join(dir, name))
			mustDo(t, err)
			if age := time.Since(info.ModTime()).Abs(); age > touchEvery { // the bubble's time is long past
				t.Errorf("%q was not touched for %v", name, age)
			}
		}
	})
}

// A displaced instance leaves alone what is another's now.
func TestInvariant1_DisplacedInstanceRemovesNothingOfAnother(t *testing.T) {
	dir := privateDir(t)
	first, _ := listening(t, dir)
	mustDo(t, os.RemoveAll(dir))
	mustDo(t, os.Mkdir(dir, 0o700))
	second, _ := listening(t, dir)
	if err := first.SetMode(ModeHeadless); err == nil {
		t.Error("the displaced one writes funnel.json")
	}
	mustDo(t, first.Close())
	mustDo(t, second.check())
	if got := names(t, dir); got != "funnel.json funnel.lock funnel.pid funnel.sock" {
		t.Errorf("left: %s", got)
	}
}

// One whose lock file alone was taken away cleans up all the same, if nobody
// took its place.
func TestInvariant1_LostLockIsTakenAnewToCleanUp(t *testing.T) {
	dir := privateDir(t)
	inst, _ := listening(t, dir)
	mustDo(t, os.Remove(filepath.Join(dir, lockName)))
	mustDo(t, inst.Close())
	if got := names(t, dir); got != lockName {
		t.Errorf("left: %s", got)
	}
}

func TestInvariant1_LostLockTakenByAnother(t *testing.T) {
	dir := privateDir(t)
	first, _ := listening(t, dir)
	mustDo(t, os.Remove(filepath.Join(dir, lockName)))
	second, err := Acquire(dir, Info{}) // and does not listen yet
	mustDo(t, err)
	mustDo(t, first.Close())
	if got := names(t, dir); got != "funnel.json funnel.lock funnel.pid funnel.sock" {
		t.Errorf("without the lock it removed files; left: %s", got)
	}
	_, err = second.Listen()
	mustDo(t, err)
	mustDo(t, second.check())
	mustDo(t, second.Close())
}

func TestCloseAfterTheFolderIsGone(t *testing.T) {
	dir := privateDir(t)
	inst, _ := listening(t, dir)
	mustDo(t, os.RemoveAll(dir))
	mustDo(t, inst.Close())
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is back: %v", err)
	}
}

func TestFailedListenLeavesNothing(t *testing.T) {
	dir := privateDir(t)
	mustDo(t, os.MkdirAll(filepath.Join(dir, pidName, "in the way"), 0o700))
	inst, err := Acquire(dir, Info{})
	mustDo(t, err)
	defer inst.Close()
	if _, err := inst.Listen(); err == nil {
		t.Fatal("listening without a pid file")
	}
	if got := names(t, dir); got != "funnel.lock funnel.pid" {
		t.Errorf("left: %s", got)
	}
}

func TestWaitGone(t *testing.T) {
	dir := privateDir(t)
	mustDo(t, WaitGone(t.Context(), filepath.Join(dir, "missing")))
	mustDo(t, WaitGone(t.Context(), dir))
	inst, _ := listening(t, dir)
	stop := errors.New("stop")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, stop)
	defer cancel()
	if err := WaitGone(ctx, dir); !errors.Is(err, stop) {
		t.Errorf("while the lock is held: %v", err)
	}
	gone := make(chan error)
	go func() { gone <- WaitGone(t.Context(), dir) }()
	mustDo(t, inst.Close())
	mustDo(t, <-gone)
	if got := names(t, dir); got != lockName {
		t.Errorf("left: %s", got)
	}
}

func TestReadInfoErrors(t *testing.T) {
	dir := privateDir(t)
	if _, err := ReadInfo(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, text := range []string{"", "{", "[]", `{"pid":0}`, `{"pid":-1}`, `{"pid":"7"}`} {
		mustDo(t, os.WriteFile(filepath.Join(dir, infoName), []byte(text), 0o600))
		if info, err := ReadInfo(dir); err == nil {
			t.Errorf("%q is read as %+v", text, info)
		}
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add([]byte(`{"pid":7,"startTime":"x","exe":"/bin/x","version":"1","config":"c","mode":"tray"}`))
	f.Add([]byte(`{"pid":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if info, err := parseInfo(text); err == nil && info.PID <= 0 {
			t.Errorf("%q names process %d", text, info.PID)
		}
	})
}
