//go:build linux || freebsd || openbsd || netbsd

package tray

import (
	"context"
	"fmt"
	"slices"

	"github.com/godbus/dbus/v5"
)

// menuName is the interface by which panels read the menu.
const menuName = "com.canonical.dbusmenu"

// watchMenu puts a token into opened whenever a panel is about to show the menu,
// until ctx ends. The tray library tells only of panels that send the event
// "opened"; those built on libdbusmenu (Xfce, Cinnamon, waybar) call AboutToShow
// or AboutToShowGroup instead, which it answers without a word. So these calls
// are watched on the bus, over a connection made for that. What it asks to see
// are calls to ourselves, nothing else.
func (s *session) watchMenu(ctx context.Context) error {
	names := s.shared.Names()
	if len(names) == 0 {
		return fmt.Errorf("watching for the menu to open: %w", dbus.ErrClosed)
	}
	conn, err := dialBus(ctx, s.address)
	if err != nil {
		return fmt.Errorf("watching for the menu to open: %w", err)
	}
	defer func() { _ = conn.Close() }() // nothing is ever sent on it
	// First the channel, then the request: a call that came in between would be
	// taken for one to this connection and answered. The bus closes the
	// connection if it refuses, or simply shows nothing.
	seen := make(chan *dbus.Message, 16)
	conn.Eavesdrop(seen)
	rule := "type='method_call',interface='" + menuName + "',destination='" + names[0] + "',member="
	call := conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.Monitoring.BecomeMonitor",
		dbus.FlagNoReplyExpected, []string{rule + "'AboutToShow'", rule + "'AboutToShowGroup'"}, uint32(0))
	if call.Err != nil {
		return fmt.Errorf("watching for the menu to open: %w", call.Err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case message, ok := <-seen:
			if !ok {
				return nil // the connection has ended; so has the bus, or it does not allow this
			}
			if showsWholeMenu(message) {
				select {
				case s.opened <- struct{}{}:
				default:
				}
			}
		}
	}
}

// showsWholeMenu reports whether a call announces the menu itself, which has the
// number 0, and not one of its submenus.
func showsWholeMenu(m *dbus.Message) bool {
	if m.Type != dbus.TypeMethodCall || len(m.Body) == 0 {
		return false
	}
	switch ids := m.Body[0].(type) {
	case int32: // AboutToShow
		return ids == 0
	case []int32: // AboutToShowGroup
		return slices.Contains(ids, 0)
	}
	return false
}
