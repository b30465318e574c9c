//go:build darwin && !cgo

package tray

import "context"

// built: the tray library needs cgo on this system, and this build has none.
const built = false

// systrayView stands in for the real one; [Usable] and [Tray.Run] refuse before
// it is used.
type systrayView struct {
	ready chan struct{}
}

func newView(string) *systrayView { return &systrayView{ready: make(chan struct{})} }

func (*systrayView) run(ctx context.Context, _ model, join func()) {
	<-ctx.Done()
	join()
}

func (*systrayView) join()                   {}
func (*systrayView) show(model)              {}
func (*systrayView) clicks() <-chan click    { return nil }
func (*systrayView) opened() <-chan struct{} { return nil }
