package traytest

import (
	"fmt"
	"sync"

	"github.com/godbus/dbus/v5"
)

const (
	notificationsName = "org.freedesktop.Notifications"
	notificationsPath = "/org/freedesktop/Notifications"
)

// Notification is one that was shown.
type Notification struct {
	// ID is its number; Replaces that of the one it took the place of, or 0.
	ID, Replaces  uint32
	App           string
	Summary, Body string
	Hints         map[string]dbus.Variant
}

// Notifications is a notification server that keeps what it is told.
type Notifications struct {
	conn         *dbus.Conn
	capabilities []string
	shown        chan Notification
	// thaw is closed when a hanging server shall answer.
	thaw chan struct{}

	mu      sync.Mutex
	last    uint32
	hanging bool
}

// NewNotifications makes conn the notification server of its bus, with these
// capabilities, for example "body-markup".
func NewNotifications(conn *dbus.Conn, capabilities ...string) (*Notifications, error) {
	n := &Notifications{
		conn: conn, capabilities: capabilities,
		shown: make(chan Notification, 256), thaw: make(chan struct{}),
	}
	methods := map[string]any{
		"Notify":            n.notify,
		"CloseNotification": func(uint32) *dbus.Error { return nil },
		"GetCapabilities":   func() ([]string, *dbus.Error) { return n.capabilities, nil },
		"GetServerInformation": func() (string, string, string, string, *dbus.Error) {
			return "stand-in", "traytest", "1", "1.2", nil
		},
	}
	if err := conn.ExportMethodTable(methods, notificationsPath, notificationsName); err != nil {
		return nil, fmt.Errorf("exporting the notification server: %w", err)
	}
	return n, own(conn, notificationsName)
}

// Shown delivers what was shown, in order.
func (n *Notifications) Shown() <-chan Notification { return n.shown }

// Hang makes the server take notifications and never answer, until the test
// calls the function returned, once.
func (n *Notifications) Hang() (thaw func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hanging = true
	return func() { close(n.thaw) }
}

func (n *Notifications) notify(app string, replaces uint32, _, summary, body string, _ []string,
	hints map[string]dbus.Variant, _ int32,
) (uint32, *dbus.Error) {
	n.mu.Lock()
	hanging := n.hanging
	id := replaces
	if id == 0 {
		n.last++
		id = n.last
	}
	n.mu.Unlock()
	if hanging {
		<-n.thaw
	}
	n.shown <- Notification{ID: id, Replaces: replaces, App: app, Summary: summary, Body: body, Hints: hints}
	return id, nil
}
