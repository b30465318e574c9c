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
	// Actions are the names of buttons, each with its label after it.
	Actions []string
	Hints   map[string]dbus.Variant
}

// Notifications is a notification server that keeps what it is told.
type Notifications struct {
	conn         *dbus.Conn
	capabilities []string
	shown        chan Notification
	closed       chan uint32
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
		shown: make(chan Notification, 256), closed: make(chan uint32, 256), thaw: make(chan struct{}),
	}
	methods := map[string]any{
		"Notify":            n.notify,
		"CloseNotification": n.close,
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

// Closed delivers the numbers of what was closed, in order.
func (n *Notifications) Closed() <-chan uint32 { return n.closed }

// Asked is how many notifications were to be shown, those that hang included, and not
// counting those that replace another one.
func (n *Notifications) Asked() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return int(n.last)
}

// Invoke tells, as when the user presses a button of a notification.
func (n *Notifications) Invoke(id uint32, action string) error {
	if err := n.conn.Emit(notificationsPath, notificationsName+".ActionInvoked", id, action); err != nil {
		return fmt.Errorf("pressing a button: %w", err)
	}
	return nil
}

// Hang makes the server take notifications and never answer, until the test
// calls the function returned, once.
func (n *Notifications) Hang() (thaw func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hanging = true
	return func() { close(n.thaw) }
}

func (n *Notifications) close(id uint32) *dbus.Error {
	n.closed <- id
	return nil
}

func (n *Notifications) notify(app string, replaces uint32, _, summary, body string, actions []string,
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
	n.shown <- Notification{ID: id, Replaces: replaces, App: app, Summary: summary, Body: body, Actions: actions, Hints: hints}
	return id, nil
}
