package upstream

import (
	"context"
	"slices"
	"time"

	"mcp-funnel/core/filewatch"
)

const (
	// watchSettle is how long the files of a server have to be quiet before it is
	// restarted with them, and watchAtMost how long that is waited for in a build
	// that takes its time.
	watchSettle = 300 * time.Millisecond
	watchAtMost = 10 * time.Second
)

// watch follows the files a server is made of, for those who develop it. It belongs
// to Run.
type watch struct {
	paths  []string
	cancel context.CancelFunc
}

// end stops following.
func (w *watch) end() {
	if w.cancel != nil {
		w.cancel()
	}
	w.paths, w.cancel = nil, nil
}

// watchFiles follows the files that the entry names (its watch) while the server is to
// run, instead of those that an earlier entry named.
func (u *Upstream) watchFiles(ctx context.Context) {
	var paths []string
	if u.wish() == inEnabled {
		paths = u.entry.Watch
	}
	if slices.Equal(u.watch.paths, paths) {
		return
	}
	u.watch.end()
	if len(paths) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	u.watch = watch{paths: paths, cancel: cancel}
	u.work.Go(func() {
		// The first look at a large tree takes its time, so not in Run.
		watcher := filewatch.New(paths, filewatch.Options{
			Settle: watchSettle, AtMost: watchAtMost, Trees: true, Log: u.deps.Log.With("server", u.name),
		})
		// Run ends with ctx and no other way.
		_ = watcher.Run(ctx, func() {
			if u.deps.Note != nil {
				u.deps.Note(u.name, "a file that it watches changed: restarting")
			}
			u.order(func(o *orders) { o.touched = true })
		})
	})
}
