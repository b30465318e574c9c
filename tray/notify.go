package tray

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gen2brain/beeep"

	"mcp-funnel/assets"
)

// appName is what desktops call the app. Panels remember an icon under it and
// notification servers their settings: it must not change.
const appName = "MCP Funnel"

// noticeIconSize in pixels.
const noticeIconSize = 48

// Notifier shows notifications.
type Notifier interface {
	// Notify shows n, in place of an earlier notice with the same key where the
	// desktop can do that, and closes those that n closes. One without a title only
	// closes. It returns when the desktop has taken the notice, at
	// the latest when ctx ends. It is called by one goroutine at a time.
	Notify(ctx context.Context, n Notice) error
}

// fallback shows notices by a library that knows several systems. The library
// waits for as long as the desktop makes it wait; so that at most one goroutine
// hangs in it, a notice is refused while an earlier one is not through.
type fallback struct {
	icons assets.Icons
	// busy has a token while the library is at work.
	busy chan struct{}
	send func(title, body string, icon []byte) error
}

var errFallbackBusy = errors.New("showing a notification: the desktop has not taken the one before")

func newFallback() *fallback {
	beeep.AppName = appName // read by the library's functions, which only we call
	return &fallback{
		busy: make(chan struct{}, 1),
		send: func(title, body string, icon []byte) error { return beeep.Notify(title, body, icon) },
	}
}

// Notify implements [Notifier].
func (f *fallback) Notify(ctx context.Context, n Notice) error {
	if n.Title == "" {
		return nil // it cannot close any
	}
	select {
	case f.busy <- struct{}{}:
	default:
		return errFallbackBusy
	}
	icon := f.icons.PNG(n.Icon, noticeIconSize)
	done := make(chan error, 1)
	go func() {
		defer func() { <-f.busy }()
		done <- f.send(notOption(n.Title), notMarkup(n.Body), icon)
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("showing a notification: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("showing a notification: %w", context.Cause(ctx))
	}
}

// notOption keeps a title from being read as an option: the library may run a
// program with the title as its first argument.
func notOption(title string) string {
	if strings.HasPrefix(title, "-") {
		return " " + title
	}
	return title
}

// notMarkup keeps a body from being read as markup by a server of which we do
// not know whether it would, or would show escapes as they are.
func notMarkup(body string) string {
	return strings.NewReplacer("<", "‹", ">", "›").Replace(body)
}
