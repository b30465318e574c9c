//go:build linux

package tray

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

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

func TestNotifierClosesByKey(t *testing.T) {
	bus := traytest.StartBus(t)
	server := startNotifications(t, bus)
	n, fallen := newTestNotifier(t, bus)
	notify := func(notice Notice) {
		t.Helper()
		if err := n.Notify(t.Context(), notice); err != nil {
			t.Fatal(err)
		}
	}
	notify(Notice{Closes: []string{"a"}}) // nothing was shown yet
	notify(Notice{Key: "a", Title: "a"})
	a := <-server.Shown()
	notify(Notice{Key: "b", Title: "b", Closes: []string{"a", "never shown"}})
	if id := <-server.Closed(); id != a.ID {
		t.Errorf("closed %d, want %d", id, a.ID)
	}
	b := <-server.Shown()
	notify(Notice{Closes: []string{"b", "a"}})
	if id := <-server.Closed(); id != b.ID {
		t.Errorf("closed %d, want %d", id, b.ID)
	}
	notify(Notice{Key: "a", Title: "again"})
	if again := <-server.Shown(); again.Replaces != 0 {
		t.Errorf("it replaces %d, which was closed", again.Replaces)
	}
	if len(server.Closed()) > 0 || len(server.Shown()) > 0 || *fallen > 0 {
		t.Error("more than that was shown or closed")
	}
}

func TestNotifierHearsOfButtonsOfItsOwnNotices(t *testing.T) {
	bus := traytest.StartBus(t)
	server := startNotifications(t, bus, "actions")
	n, _ := newTestNotifier(t, bus)
	if err := n.Notify(t.Context(), Notice{Key: "a", Title: "a", Server: "x", Offers: true}); err != nil {
		t.Fatal(err)
	}
	shown := <-server.Shown()
	if len(shown.Actions) != 4 {
		t.Errorf("buttons %q", shown.Actions)
	}
	// Anybody can send such a signal to us alone, past what we have asked the bus for.
	forged := &dbus.Message{
		Type: dbus.TypeSignal,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath:        dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/Notifications")),
			dbus.FieldInterface:   dbus.MakeVariant(notificationsName),
			dbus.FieldMember:      dbus.MakeVariant("ActionInvoked"),
			dbus.FieldDestination: dbus.MakeVariant(n.conn.Names()[0]),
			dbus.FieldSignature:   dbus.MakeVariant(dbus.SignatureOf(uint32(0), "")),
		},
		Body: []any{shown.ID, "reconnect"},
	}
	if call := bus.Connect(t).Send(forged, nil); call != nil && call.Err != nil {
		t.Fatal(call.Err)
	}
	for _, action := range []string{"whatever", "log"} {
		if err := server.Invoke(shown.ID, action); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case got := <-n.asked:
		if got != (noticeAction{entry: entryShowLog, server: "x"}) {
			t.Errorf("heard of %+v", got)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing was heard")
	}
	for range 20 { // nobody listens: it must not hang
		if err := server.Invoke(shown.ID, "log"); err != nil {
			t.Fatal(err)
		}
	}
	n.Close()
}

// A server that was busy for too long shows the notice in the end: its recovery takes
// the place of it all the same.
func TestNotifierKnowsWhatIsShownLate(t *testing.T) {
	bus := traytest.StartBus(t)
	server := startNotifications(t, bus)
	n, _ := newTestNotifier(t, bus)
	thaw := server.Hang()
	for _, key := range []string{"a", "b", "c"} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := n.Notify(ctx, Notice{Key: key, Title: key}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", key, err)
		}
		cancel()
	}
	if err := n.Notify(t.Context(), Notice{Closes: []string{"b"}}); err != nil {
		t.Fatal(err)
	}
	thaw()
	ids := make(map[string]uint32)
	for range 3 {
		shown := <-server.Shown()
		ids[shown.Summary] = shown.ID
	}
	select {
	case id := <-server.Closed():
		if id != ids["b"] {
			t.Errorf("closed %d, want %d, which was not to be shown any more", id, ids["b"])
		}
	case <-time.After(5 * time.Second):
		t.Error("what was not to be shown any more stays")
	}
	err := traytest.Poll(5*time.Second, func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.notices) != 2 || len(n.asking) != 0 {
			return errors.New("not all answers have come")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "c"} {
		if err := n.Notify(t.Context(), Notice{Key: key, Title: "recovered"}); err != nil {
			t.Fatal(err)
		}
		want := ids[key]
		if key == "b" {
			want = 0
		}
		if shown := <-server.Shown(); shown.Replaces != want {
			t.Errorf("%s replaces %d, want %d", key, shown.Replaces, want)
		}
	}
	if len(server.Closed()) > 0 {
		t.Error("more was closed")
	}
}

// The same where a second notice is asked for before the first was shown.
func TestNotifierClosesWhatIsShownTooLate(t *testing.T) {
	bus := traytest.StartBus(t)
	server := startNotifications(t, bus)
	n, _ := newTestNotifier(t, bus)
	thaw := server.Hang()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_ = n.Notify(ctx, Notice{Key: "a", Title: "lost"})
	recovered := make(chan error, 1)
	go func() { recovered <- n.Notify(t.Context(), Notice{Key: "a", Title: "recovered"}) }()
	err := traytest.Poll(5*time.Second, func() error {
		if asked := server.Asked(); asked != 2 {
			return fmt.Errorf("asked for %d notices", asked)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	thaw()
	if err := <-recovered; err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]uint32)
	for range 2 {
		shown := <-server.Shown()
		ids[shown.Summary] = shown.ID
	}
	select {
	case id := <-server.Closed():
		if id != ids["lost"] {
			t.Errorf("closed %d of %v", id, ids)
		}
	case <-time.After(5 * time.Second):
		t.Errorf("both are on the screen: %v", ids)
	}
}
