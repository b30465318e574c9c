//go:build !linux && !freebsd && !openbsd && !netbsd

package tray

import (
	"context"
	"fmt"

	"mcp-funnel/core/status"
)

// Usable reports whether there is a desktop to show a tray on. On this system
// there always is one; only the program may be built without a tray, and then
// the error wraps [ErrUnavailable]. Neither argument is needed here.
func Usable(context.Context, func(string) string) error {
	if !built {
		return fmt.Errorf("%w: built without tray; use a build made with cgo", ErrUnavailable)
	}
	return nil
}

// session is the desktop session that a tray is shown in. This system has
// exactly one, and it ends with the user's programs.
type session struct {
	// opened never has a token: the view itself is told.
	opened chan struct{}
}

func openSession(ctx context.Context, environ func(string) string) (*session, error) {
	return &session{}, Usable(ctx, environ)
}

// wait blocks until ctx ends.
func (*session) wait(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (*session) close() {}

func (*session) watchMenu(context.Context) error { return nil }

// follow publishes that the icon is shown, which it always is here.
func (*session) follow(_ context.Context, publish func(status.Tray)) error {
	publish(status.Tray{Shown: true})
	return nil
}
