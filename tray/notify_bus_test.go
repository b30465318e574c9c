//go:build linux

package tray

import (
	"context"
	"errors"
	"testing"
	"time"

	"mcp-funnel/assets"
	"mcp-funnel/tray/traytest"
)

// newTestNotifier returns a notifier on a bus; its fall-back counts what it is asked for.
func newTestNotifier(t *testing.T, bus *traytest.Bus) (*DesktopNotifier, *int) {
	t.Helper()
	n := NewNotifier(traytest.Environ("DBUS_SESSION_BUS_ADDRESS=" + bus.Address))
	t.Cleanup(n.Close)
	count := new(int)
	n.fallback.send = func(string, string, []byte) error {
		*count++
		return nil
	}
	return n, count
}

func startNotifications(t *testing.T, bus *traytest.Bus, capabilities ...string) *traytest.Notifications {
	t.Helper()
	server, err := traytest.NewNotifications(bus.Connect(t), capabilities...)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func TestNotifierReplacesByKey(t *testing.T) {
	bus := traytest.StartBus(t)
	server := startNotifications(t, bus)
	n, _ := newTestNotifier(t, bus)
	var ids []uint32
	for i, c := range []struct {
		key      string
		replaces int // index of the one replaced, -1: none
	}{{"a", -1}, {"b", -1}, {"a", 0}, {"b", 1}, {"a", 0}} {
		if err := n.Notify(t.Context(), Notice{Key: c.key, Title: "t", Icon: assets.Octagon}); err != nil {
			t.Fatal(err)
		}
		got, want := <-server.Shown(), uint32(0)
		if c.replaces >= 0 {
			want = ids[c.replaces]
		}
		if got.Replaces != want {
			t.Errorf("notice %d replaces %d, want %d", i, got.Replaces, want)
		}
		if urgency := got.Hints["urgency"].Value(); urgency != byte(1) {
			t.Errorf("urgency %v", urgency)
		}
		if image, _ := got.Hints["image-data"].Value().([]any); len(image) != 7 || image[0] != int32(noticeIconSize) {
			t.Errorf("image %v", image)
		}
		ids = append(ids, got.ID)
	}
}

func TestNotifierEscapesWhereTheBodyIsMarkup(t *testing.T) {
	for capability, want := range map[string]string{"body-markup": "&lt;b&gt; &amp; x", "body": "<b> & x"} {
		bus := traytest.StartBus(t)
		server := startNotifications(t, bus, capability)
		n, _ := newTestNotifier(t, bus)
		if err := n.Notify(t.Context(), Notice{Title: "<b>", Body: "<b> & x"}); err != nil {
			t.Fatal(err)
		}
		if got := <-server.Shown(); got.Body != want || got.Summary != "<b>" {
			t.Errorf("%s: %q, %q, want the body %q", capability, got.Summary, got.Body, want)
		}
	}
}

// Another server has other numbers: replacing by them would hit some other
// program's notice.
func TestNotifierForgetsNumbersOfAnotherServer(t *testing.T) {
	bus := traytest.StartBus(t)
	conn := bus.Connect(t)
	if _, err := traytest.NewNotifications(conn, "body-markup"); err != nil {
		t.Fatal(err)
	}
	n, fallen := newTestNotifier(t, bus)
	if err := n.Notify(t.Context(), Notice{Key: "a", Title: "t"}); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	err := traytest.Poll(5*time.Second, func() error {
		if err := n.Notify(t.Context(), Notice{Key: "a", Title: "t"}); err != nil {
			return err
		}
		if *fallen == 0 {
			return errors.New("the server is still there")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	server := startNotifications(t, bus)
	if err := n.Notify(t.Context(), Notice{Key: "a", Title: "t", Body: "<"}); err != nil {
		t.Fatal(err)
	}
	if got := <-server.Shown(); got.Replaces != 0 || got.Body != "<" {
		t.Errorf("replaces %d with %q: something of the old server was kept", got.Replaces, got.Body)
	}
}

func TestNotifierFallsBackWithoutAServer(t *testing.T) {
	bus := traytest.StartBus(t)
	n, fallen := newTestNotifier(t, bus)
	if err := n.Notify(t.Context(), Notice{Title: "t"}); err != nil || *fallen != 1 {
		t.Errorf("%v, %d notices by the fall-back", err, *fallen)
	}
}

// C116: a server that does not answer costs the time until the deadline, and the
// next notice works again. The fall-back would hang as well: it is not tried.
func TestC116_NotifierKeepsItsDeadline(t *testing.T) {
	bus := traytest.StartBus(t)
	server := startNotifications(t, bus)
	n, fallen := newTestNotifier(t, bus)
	thaw := server.Hang()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := n.Notify(ctx, Notice{Title: "t"}); !errors.Is(err, context.DeadlineExceeded) || *fallen != 0 {
		t.Errorf("%v, %d notices by the fall-back", err, *fallen)
	}
	thaw()
	if err := n.Notify(t.Context(), Notice{Title: "t"}); err != nil {
		t.Errorf("after the server came back: %v", err)
	}
}

func TestNotifierConnectsAgain(t *testing.T) {
	bus := traytest.StartBus(t)
	startNotifications(t, bus)
	n, _ := newTestNotifier(t, bus)
	if err := n.Notify(t.Context(), Notice{Title: "t"}); err != nil {
		t.Fatal(err)
	}
	_ = n.conn.Close()
	if err := n.Notify(t.Context(), Notice{Title: "t"}); err != nil {
		t.Errorf("after the connection was lost: %v", err)
	}
}
