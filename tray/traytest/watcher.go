package traytest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
)

// Watcher stands in for a panel: a minimal org.kde.StatusNotifierWatcher.
type Watcher struct {
	conn  *dbus.Conn
	props *prop.Properties

	mu    sync.Mutex
	items []string
	lose  bool
	calls int
}

// NewWatcher makes conn the watcher of its bus.
func NewWatcher(conn *dbus.Conn) (*Watcher, error) {
	w := &Watcher{conn: conn}
	methods := map[string]any{
		"RegisterStatusNotifierItem": w.register,
		"RegisterStatusNotifierHost": func(string) *dbus.Error { return nil },
	}
	if err := conn.ExportMethodTable(methods, watcherPath, watcherName); err != nil {
		return nil, fmt.Errorf("exporting the watcher: %w", err)
	}
	var err error
	w.props, err = prop.Export(conn, watcherPath, prop.Map{watcherName: {
		"RegisteredStatusNotifierItems":  {Value: []string{}, Emit: prop.EmitTrue},
		"IsStatusNotifierHostRegistered": {Value: true, Emit: prop.EmitTrue},
		"ProtocolVersion":                {Value: int32(0), Emit: prop.EmitTrue},
	}})
	if err != nil {
		return nil, fmt.Errorf("exporting the watcher's properties: %w", err)
	}
	return w, w.Claim()
}

func (w *Watcher) register(service string, from dbus.Sender) *dbus.Error {
	name := service
	if strings.HasPrefix(service, "/") {
		name = string(from) + service
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if w.lose {
		w.lose = false
		return nil
	}
	w.items = append(w.items, name)
	w.props.SetMust(watcherName, "RegisteredStatusNotifierItems", slices.Clone(w.items))
	return nil
}

// LoseNext makes the watcher forget the next icon it is offered.
func (w *Watcher) LoseNext() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = true
}

// Offers counts how often it was offered an icon.
func (w *Watcher) Offers() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

// Release gives the name up and forgets the icons, as a panel that ends does.
func (w *Watcher) Release() error {
	w.mu.Lock()
	w.items = nil
	w.props.SetMust(watcherName, "RegisteredStatusNotifierItems", []string{})
	w.mu.Unlock()
	if _, err := w.conn.ReleaseName(watcherName); err != nil {
		return fmt.Errorf("releasing %s: %w", watcherName, err)
	}
	return nil
}

// Claim takes the name, as a panel that starts does.
func (w *Watcher) Claim() error { return own(w.conn, watcherName) }

func own(conn *dbus.Conn, name string) error {
	reply, err := conn.RequestName(name, dbus.NameFlagDoNotQueue)
	if err != nil {
		return fmt.Errorf("owning %s: %w", name, err)
	}
	if reply != dbus.RequestNameReplyPrimaryOwner {
		return fmt.Errorf("%s is owned by another program", name)
	}
	return nil
}
