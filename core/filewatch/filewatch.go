package filewatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// lookAfter is how long after a notice the watches are made to fit again: often
	// several notices come at once, and a look at a large tree takes its time.
	lookAfter = 50 * time.Millisecond
	// pollEvery is the interval where the system gives no notice of changes.
	pollEvery = time.Second
)

// errNoNotices says that the system's notices of changes cannot be had.
var errNoNotices = errors.New("no notices of file changes")

// Options says how to watch.
type Options struct {
	// Settle is how long the files have to be quiet before a change is told: an
	// editor that truncates, writes and renames makes one change, not three.
	Settle time.Duration
	// AtMost is how long a change may wait to be told while more of them come; 0:
	// until they have settled.
	AtMost time.Duration
	// Trees: a path that is a folder stands for everything in it, at any depth.
	Trees bool
	// Log gets a line when the system gives no notices, and files are polled.
	Log *slog.Logger
}

// Watcher tells when one of some files changes, however it is done: written in
// place, replaced by renaming, deleted and made anew, through a symbolic link,
// or with its folder still to be made. It watches folders, because a watch on a
// file is lost with the first rename.
type Watcher struct {
	paths   []string
	options Options
	seen    []stamp // of paths, as of the last report

	// For tests: how to get notices, and the interval without them.
	notices func() (*fsnotify.Watcher, error)
	poll    time.Duration
}

// New makes a watcher of paths, which need not exist. It notes what is there now:
// make it before reading the files, and no change in between is lost.
func New(paths []string, o Options) *Watcher {
	w := &Watcher{paths: paths, options: o, notices: fsnotify.NewWatcher, poll: pollEvery}
	w.seen = w.stamps()
	return w
}

// Run calls changed within 2 s of each change of the files, until ctx is done;
// several changes in a row are one. changed runs in a goroutine of its own and
// never twice at a time; Run waits for it before returning. Where the system
// gives no notices (their number is limited) the files are looked at each
// second instead. The error is always nil: ending by ctx is the only end.
func (w *Watcher) Run(ctx context.Context, changed func()) error {
	kick := make(chan struct{}, 1)
	var worker sync.WaitGroup
	worker.Go(func() {
		for range kick {
			if ctx.Err() == nil {
				changed()
			}
		}
	})
	defer worker.Wait()
	defer close(kick)
	report := func() {
		select {
		case kick <- struct{}{}:
		default: // one is due already, and will see this change as well
		}
	}
	if err := w.follow(ctx, report); err != nil {
		w.options.Log.Warn("watching files by looking at them each second", "err", err)
		w.pollFiles(ctx, report)
	}
	return nil
}

// follow waits for the system's notices until ctx is done (nil) or they cannot
// be had (errNoNotices).
func (w *Watcher) follow(ctx context.Context, report func()) error {
	notices, err := w.notices()
	if err != nil {
		return fmt.Errorf("%w: %w", errNoNotices, err)
	}
	defer func() { _ = notices.Close() }() // nothing is lost if it fails
	f := newFollower(w, notices)
	defer f.stop()
	if err := f.fit(); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.changes.due():
			f.changes.stop()
			w.seen = w.stamps()
			report()
		case <-f.look.C:
			f.looking = false
			if err := f.fit(); err != nil {
				return err
			}
		case event, open := <-notices.Events:
			if !open {
				return errNoNotices
			}
			if f.watched.concerns(event.Name) { // else it is something else in the same folder
				f.touch()
			}
		case err, open := <-notices.Errors:
			if !open {
				return errNoNotices
			}
			// Notices were lost: whatever they said, look again.
			w.options.Log.Debug("file notices lost", "err", err)
			f.touch()
		}
	}
}

// follower is what follow keeps.
type follower struct {
	watcher *Watcher
	watched *watchSet
	changes debounce
	// look fires when the watches are to be made to fit again; looking: it will.
	look    *time.Timer
	looking bool
	pause   time.Duration
}

func newFollower(w *Watcher, notices *fsnotify.Watcher) *follower {
	look := time.NewTimer(time.Hour)
	look.Stop()
	return &follower{
		watcher: w,
		watched: &watchSet{notices: notices, trees: w.options.Trees, log: w.options.Log},
		changes: debounce{settle: w.options.Settle, atMost: w.options.AtMost},
		look:    look, pause: lookAfter,
	}
}

func (f *follower) stop() {
	f.changes.stop()
	f.look.Stop()
}

// touch notes a change, after which folders may be others.
func (f *follower) touch() {
	f.changes.touch()
	if !f.looking {
		f.looking = true
		f.look.Reset(f.pause)
	}
}

// fit makes the watches fit, and finds what changed before they did.
func (f *follower) fit() error {
	began := time.Now()
	if err := f.watched.update(f.watcher.paths); err != nil {
		return err
	}
	if f.changes.timer == nil && f.watcher.differs() {
		f.changes.touch()
	}
	// At most a sixth of the time goes into looking.
	f.pause = max(lookAfter, 5*time.Since(began))
	return nil
}

// pollFiles compares the files' stamps until ctx is done. A file seen in the
// middle of being written is reported, and again when it is complete.
func (w *Watcher) pollFiles(ctx context.Context, report func()) {
	ticker := time.NewTicker(w.poll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if w.differs() {
			w.seen = w.stamps()
			report()
		}
	}
}

// stamp is what tells one state of a file from another. A missing file has a
// nil info.
type stamp struct {
	info fs.FileInfo
	// inside is that of everything in a folder; 0 when only the path counts.
	inside uint64
}

func (w *Watcher) stamps() []stamp {
	list := make([]stamp, len(w.paths))
	for i, path := range w.paths {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		list[i].info = info
		if w.options.Trees && info.IsDir() {
			list[i].inside = treeStamp(path)
		}
	}
	return list
}

// differs reports whether a file is not as it was at the last report.
func (w *Watcher) differs() bool {
	for i, now := range w.stamps() {
		if !now.same(w.seen[i]) {
			return true
		}
	}
	return false
}

func (s stamp) same(o stamp) bool {
	if s.info == nil || o.info == nil {
		return s.info == nil && o.info == nil
	}
	return s.inside == o.inside && os.SameFile(s.info, o.info) && s.info.Size() == o.info.Size() &&
		s.info.Mode() == o.info.Mode() && s.info.ModTime().Equal(o.info.ModTime())
}

// debounce is a timer that every touch puts off, up to a limit.
type debounce struct {
	settle, atMost time.Duration

	timer *time.Timer
	first time.Time // the first touch that has not been reported
}

// touch notes a change.
func (d *debounce) touch() {
	if d.timer == nil {
		d.first = time.Now()
		d.timer = time.NewTimer(d.settle)
		return
	}
	wait := d.settle
	if d.atMost > 0 {
		wait = min(wait, max(0, d.atMost-time.Since(d.first)))
	}
	d.timer.Reset(wait)
}

// due fires when the changes have settled; it never does without one.
func (d *debounce) due() <-chan time.Time {
	if d.timer == nil {
		return nil
	}
	return d.timer.C
}

// stop forgets the changes.
func (d *debounce) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
