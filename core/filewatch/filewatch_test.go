package filewatch

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is that of the watchers under test.
const (
	settle       = 150 * time.Millisecond
	settleAtMost = time.Second
)

// limit is what the contract gives a change, and some more for a busy machine.
const limit = 4 * time.Second

// watching runs a watcher of paths until the test ends; each report arrives on
// the channel.
func watching(t *testing.T, setup func(*Watcher), paths ...string) <-chan struct{} {
	t.Helper()
	w := New(paths, Options{Settle: settle, AtMost: settleAtMost, Log: slog.New(slog.DiscardHandler)})
	if setup != nil {
		setup(w)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reports := make(chan struct{}, 100)
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx, func() { reports <- struct{}{} }); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return reports
}

// reported waits until the watcher has told of what was just done.
func reported(t *testing.T, reports <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-reports:
	case <-time.After(limit):
		t.Fatalf("%s: not reported within %v", what, limit)
	}
}

// quiet waits out the debouncing, so that the next report is a new one.
func quiet(t *testing.T, reports <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-reports:
		t.Errorf("%s: reported", what)
	case <-time.After(2 * settle):
	}
}

// replace saves as editors do: a new file beside, then rename.
func replace(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".tmp", text)
	if err := os.Rename(path+".tmp", path); err != nil {
		t.Fatal(err)
	}
}

func TestC14_RenamedTwiceThenTruncatedAndWritten(t *testing.T) {
	for name, setup := range map[string]func(*Watcher){"notices": nil, "polling": polling} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.json")
			write(t, path, "{}")
			reports := watching(t, setup, path)
			replace(t, path, "{ }")
			reported(t, reports, "first rename")
			replace(t, path, "{  }")
			reported(t, reports, "second rename")
			write(t, path, `{"a":1}`)
			reported(t, reports, "truncate and write")
			if text := read(t, path); text != `{"a":1}` {
				t.Errorf("after the last report: %s", text)
			}
		})
	}
}

// polling makes a watcher that gets no notices, as when their limit is reached.
func polling(w *Watcher) {
	w.notices = func() (*fsnotify.Watcher, error) { return nil, errors.New("too many open files") }
	w.poll = 20 * time.Millisecond
}

func TestC14_AHalfWrittenFileIsReportedAgainWhenComplete(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	whole := `{"mcpServers":{"a":{"command":"a"}}}`
	write(t, path, whole)
	reports := watching(t, nil, path)
	write(t, path, whole[:20])
	reported(t, reports, "half of it")
	write(t, path, whole)
	reported(t, reports, "all of it")
	if text := read(t, path); text != whole {
		t.Errorf("after the last report: %s", text)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWatcherOneSaveIsOneReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	write(t, path, "{}")
	reports := watching(t, nil, path)
	for range 5 {
		replace(t, path, "{ }")
		write(t, path, "{}")
	}
	reported(t, reports, "a burst")
	quiet(t, reports, "nothing after the burst")
	write(t, filepath.Join(filepath.Dir(path), "other.json"), "{}")
	quiet(t, reports, "another file in the folder")
}

func TestDebounceWaitsForQuietButNotForEver(t *testing.T) {
	for _, tc := range []struct {
		touches int
		every   time.Duration
		want    time.Duration
	}{
		{1, 0, settle},
		{4, 100 * time.Millisecond, 300*time.Millisecond + settle},
		{1000, 100 * time.Millisecond, settleAtMost},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := debounce{settle: settle, atMost: settleAtMost}
			defer d.stop()
			begin := time.Now()
			for range tc.touches {
				d.touch()
				select {
				case <-d.due():
				case <-time.After(tc.every):
					continue
				}
				break
			}
			if tc.touches < 1000 {
				<-d.due()
			}
			if took := time.Since(begin); took != tc.want {
				t.Errorf("%d touches every %v: due after %v, want %v", tc.touches, tc.every, took, tc.want)
			}
		})
	}
}

func TestWatcherDeletionAndCreation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "yet")
	path := filepath.Join(dir, "config.json")
	reports := watching(t, nil, path, filepath.Join(t.TempDir(), "base.json"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, "{}")
	reported(t, reports, "folder and file appear")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	reported(t, reports, "deleted")
	write(t, path, "{}")
	reported(t, reports, "made anew")
	if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
		t.Fatal(err)
	}
	reported(t, reports, "folders deleted")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, "{}")
	reported(t, reports, "folders made anew")
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	reported(t, reports, "folder renamed away")
	if err := os.Rename(dir+".old", dir); err != nil {
		t.Fatal(err)
	}
	reported(t, reports, "folder renamed back")
	write(t, path, "{ }")
	reported(t, reports, "written after all that")
}

func TestWatcherFollowsLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege")
	}
	dir := t.TempDir()
	real1, real2, path := filepath.Join(dir, "dot", "one.json"), filepath.Join(dir, "dot2", "two.json"), filepath.Join(dir, "cfg", "config.json")
	for _, p := range []string{real1, real2, path} {
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, real1, "{}")
	write(t, real2, "{}")
	link := func(target, name string) {
		t.Helper()
		if err := errors.Join(os.Symlink(target, name+".tmp"), os.Rename(name+".tmp", name)); err != nil {
			t.Fatal(err)
		}
	}
	link("../current/one.json", path)
	link("dot", filepath.Join(dir, "current"))
	reports := watching(t, nil, path)
	write(t, real1, "{ }")
	reported(t, reports, "the file behind the links is written")
	replace(t, real1, "{  }")
	reported(t, reports, "the file behind the links is replaced")
	write(t, filepath.Join(dir, "dot2", "one.json"), "{}")
	link("dot2", filepath.Join(dir, "current"))
	reported(t, reports, "a folder's link leads elsewhere")
	link(real2, path)
	reported(t, reports, "the file's link leads elsewhere")
	write(t, real2, "{ }")
	reported(t, reports, "the new file is written")
	link(path, path) // a circle
	reported(t, reports, "the link leads to itself")
}

func TestWatcherSeesWhatChangedBeforeRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	for name, setup := range map[string]func(*Watcher){"notices": func(*Watcher) {}, "polling": polling} {
		reports := watching(t, func(w *Watcher) { setup(w); write(t, path, "{}") }, path)
		reported(t, reports, name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWatcherFallsBackWhenNoticesEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	var notices *fsnotify.Watcher
	made := make(chan struct{})
	reports := watching(t, func(w *Watcher) {
		w.poll = 20 * time.Millisecond
		w.notices = func() (n *fsnotify.Watcher, err error) {
			defer close(made)
			notices, err = fsnotify.NewWatcher()
			return notices, err
		}
	}, path)
	<-made
	if err := notices.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, path, "{}")
	reported(t, reports, "written without notices")
}

func TestWatcherCallsSeriallyAndLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	w := New([]string{path}, Options{Settle: settle, AtMost: settleAtMost, Log: slog.New(slog.DiscardHandler)})
	polling(w)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var inside, calls atomic.Int32
	entered, release := make(chan struct{}, 10), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		_ = w.Run(ctx, func() {
			if inside.Add(1) != 1 {
				t.Error("called while it runs")
			}
			calls.Add(1)
			entered <- struct{}{}
			<-release
			inside.Add(-1)
		})
	})
	write(t, path, "1")
	<-entered
	write(t, path, "22") // while the callback is busy
	time.AfterFunc(100*time.Millisecond, func() { close(release) })
	select {
	case <-entered:
	case <-time.After(limit):
		t.Error("a change during the callback was lost")
	}
	cancel()
	running.Wait()
	if inside.Load() != 0 {
		t.Error("Run returned before the callback did")
	}
}

func TestInvariant7_WatcherEndsAtOnce(t *testing.T) {
	for _, setup := range []func(*Watcher){nil, polling} {
		w := New([]string{filepath.Join(t.TempDir(), "c.json")}, Options{Settle: settle, AtMost: settleAtMost, Log: slog.New(slog.DiscardHandler)})
		if setup != nil {
			setup(w)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Run(ctx, func() { t.Error("called after the end") }); err != nil {
			t.Error(err)
		}
	} // goleak in TestMain sees what stays
}

// A folder stands for everything in it: also for what is made later, at any depth, and
// not for what no program is built into.
func TestWatcherOfATree(t *testing.T) {
	for name, setup := range map[string]func(*Watcher){"notices": nil, "polling": polling} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dist := filepath.Join(root, "dist")
			reports := watching(t, func(w *Watcher) {
				w.options.Trees = true
				if setup != nil {
					setup(w)
				}
			}, dist)
			mkdir(t, filepath.Join(dist, "lib", "deep"))
			reported(t, reports, "the tree appears")
			replace(t, filepath.Join(dist, "lib", "deep", "a.js"), "one")
			reported(t, reports, "a file appears deep inside")
			write(t, filepath.Join(dist, "lib", "deep", "a.js"), "three")
			reported(t, reports, "it is written in place")
			mkdir(t, filepath.Join(dist, "node_modules", "x"))
			reported(t, reports, "a folder that is skipped appears")
			quiet(t, reports, "afterwards")
			write(t, filepath.Join(dist, "node_modules", "x", "y.js"), "z")
			quiet(t, reports, "a file in a folder that is skipped")
		})
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
