//go:build !linux && !freebsd && !openbsd && !netbsd

package tray

import "context"

// DesktopNotifier shows notices on the user's desktop.
type DesktopNotifier struct {
	fallback *fallback
	// asked never has anything: there are no buttons.
	asked chan noticeAction
}

// NewNotifier returns the desktop's notifier. The environment is not needed on
// this system.
func NewNotifier(_ func(string) string) *DesktopNotifier {
	return &DesktopNotifier{fallback: newFallback()}
}

// Notify implements [Notifier]. This system cannot replace a notice.
func (d *DesktopNotifier) Notify(ctx context.Context, n Notice) error {
	return d.fallback.Notify(ctx, n)
}

// clear closes nothing: this system cannot.
func (d *DesktopNotifier) clear(context.Context) {}

// Close releases nothing on this system.
func (d *DesktopNotifier) Close() {}
