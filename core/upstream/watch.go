package upstream

import (
	"context"
	"slices"
	"time"

	"mcp-funnel/core/filewatch"
)

// watchSettle is how long the files of a server have to be quiet before it is
// restarted with them.
const watchSettle = 300 * time.Millisecond

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

// watchFiles follows the files that the entry names (its watch), instead of those
// that an earlier entry named.
func (u *Upstream) watchFiles(ctx context.Context) {
	if slices.Equal(u.watch.paths, u.entry.Watch) {
		return
	}
	u.watch.end()
	if len(u.entry.Watch) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	u.watch = watch{paths: u.entry.Watch, cancel: cancel}
	watcher := filewatch.New(u.entry.Watch, filewatch.Options{Settle: watchSettle, Trees: true, Log: u.deps.Log})
	u.work.Go(func() {
		// Run ends with ctx and no other way.
		_ = watcher.Run(ctx, func() {
			if u.deps.Note != nil {
				u.deps.Note(u.name, "a file that it watches changed: restarting")
			}
			u.order(func(o *orders) { o.touched = true })
		})
	})
}
