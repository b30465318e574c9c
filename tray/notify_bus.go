//go:build linux || freebsd || openbsd || netbsd

package tray

import (
	"context"
	"errors"
	"fmt"
	"html"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"mcp-funnel/assets"
)

// The Desktop Notifications Specification 1.2.
const (
	notificationsName = "org.freedesktop.Notifications"
	notificationsPath = "/org/freedesktop/Notifications"
)

// DesktopNotifier shows notices on the user's desktop by the session bus, over a
// connection of its own. It connects when the first notice comes and again
// when the connection was lost.
type DesktopNotifier struct {
	environ  func(string) string
	fallback *fallback

	// asked delivers what the user chose on a notice.
	asked chan noticeAction

	conn *dbus.Conn // nil: not connected
	// listening are the goroutines that hear of choices on conn, and of late answers.
	listening sync.WaitGroup

	mu sync.Mutex // for the fields below, which both goroutines use
	// owner is the bus name of the server that the fields below are about.
	owner           string
	markup, buttons bool
	// notices has the last one with a key. It grows with the number of servers that
	// were ever in trouble.
	notices map[string]sent
	// asking has the notices that the server was asked to show, by key, until it has
	// answered. Another one with the key, or closing it, makes it forgotten.
	asking map[string]*dbus.Call
}

// sent is a notice that the server has: its number there, and the MCP server whose
// buttons it has, "" none.
type sent struct {
	id     uint32
	server string
}

// The names of buttons.
const (
	actionReconnect = "reconnect"
	actionShowLog   = "log"
)

// NewNotifier returns the desktop's notifier; environ looks up the address of
// the session bus. It connects to nothing yet.
func NewNotifier(environ func(string) string) *DesktopNotifier {
	const impatience = 4 // choices that may wait; the user has two hands
	return &DesktopNotifier{environ: environ, fallback: newFallback(), asked: make(chan noticeAction, impatience)}
}

// Notify implements [Notifier]. Where nobody on the bus shows notifications it
// tries other ways.
func (d *DesktopNotifier) Notify(ctx context.Context, n Notice) error {
	err := d.notify(ctx, n)
	if errors.Is(err, errNoServer) && ctx.Err() == nil {
		return d.fallback.Notify(ctx, n)
	}
	if err != nil {
		return fmt.Errorf("showing a notification: %w", err)
	}
	return nil
}

// clear takes all notices off the screen.
func (d *DesktopNotifier) clear(ctx context.Context) {
	if d.conn == nil || !d.conn.Connected() || d.meet(ctx) != nil {
		return
	}
	d.mu.Lock()
	keys := slices.Sorted(maps.Keys(d.notices))
	d.mu.Unlock()
	for _, key := range keys {
		if d.closeNotice(ctx, key) != nil {
			return // the desktop does not answer
		}
	}
}

// Close ends the connection.
func (d *DesktopNotifier) Close() {
	if d.conn != nil {
		_ = d.conn.Close() // nothing is left to be sent
		d.conn = nil
	}
	d.listening.Wait()
}

var errNoServer = errors.New("nobody on the session bus shows notifications")

func (d *DesktopNotifier) notify(ctx context.Context, n Notice) error {
	if n.Title == "" && d.conn == nil {
		return nil // nothing was shown that could be closed
	}
	if err := d.connect(ctx); err != nil {
		return err
	}
	if err := d.meet(ctx); err != nil {
		return err
	}
	for _, key := range n.Closes {
		if err := d.closeNotice(ctx, key); err != nil {
			return err
		}
	}
	if n.Title == "" {
		return nil
	}
	d.mu.Lock()
	body, replaces, markup := n.Body, d.notices[n.Key].id, d.markup
	offer := n.Offers && d.buttons
	d.mu.Unlock()
	if markup {
		body = html.EscapeString(body)
	}
	actions, server := []string{}, ""
	if offer {
		actions, server = []string{actionReconnect, reconnectTitle, actionShowLog, showLogTitle}, n.Server
	}
	const serverDecides = int32(-1)
	return d.ask(ctx, n.Key, server, appName, replaces, "", n.Title, body, actions, hints(n), serverDecides)
}

// ask asks the server to show a notice with those arguments, which has the buttons of
// the MCP server. An answer that comes after ctx has ended still counts.
func (d *DesktopNotifier) ask(ctx context.Context, key, server string, arguments ...any) error {
	const patience = time.Minute
	answered, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
	object := d.server()
	call := object.GoWithContext(answered, notificationsName+".Notify", 0, make(chan *dbus.Call, 1), arguments...)
	d.mu.Lock()
	d.asking[key] = call
	owner := d.owner
	d.mu.Unlock()
	select {
	case <-call.Done:
		stop()
		return d.took(object, owner, key, server, call)
	case <-ctx.Done():
		d.listening.Go(func() {
			<-call.Done
			stop()
			_ = d.took(object, owner, key, server, call) // that it failed was said
		})
		return ctx.Err()
	}
}

// took notes that the server, which was owner, has taken a notice. One that is not
// wanted any more is closed.
func (d *DesktopNotifier) took(object dbus.BusObject, owner, key, server string, call *dbus.Call) error {
	var id uint32
	err := call.Store(&id)
	d.mu.Lock()
	wanted := d.asking[key] == call
	if wanted {
		delete(d.asking, key)
	}
	if wanted && err == nil {
		d.notices[key] = sent{id: id, server: server}
	}
	stray := err == nil && owner == d.owner
	for _, notice := range d.notices {
		stray = stray && notice.id != id
	}
	d.mu.Unlock()
	if stray {
		object.Go(notificationsName+".CloseNotification", dbus.FlagNoReplyExpected, nil, id)
	}
	return noServer(err)
}

// closeNotice takes a notice off the screen, if there is one.
func (d *DesktopNotifier) closeNotice(ctx context.Context, key string) error {
	d.mu.Lock()
	notice, ok := d.notices[key]
	delete(d.notices, key)
	delete(d.asking, key)
	d.mu.Unlock()
	if !ok {
		return nil
	}
	err := d.server().CallWithContext(ctx, notificationsName+".CloseNotification", 0, notice.id).Err
	var answer dbus.Error
	if err != nil && !errors.As(err, &answer) {
		return err
	}
	return nil // some servers answer that it is closed already
}

// listen hands on what the user chooses on notices until the connection ends.
func (d *DesktopNotifier) listen(signals <-chan *dbus.Signal) {
	for signal := range signals {
		var id uint32
		var action string
		if signal.Name != notificationsName+".ActionInvoked" || dbus.Store(signal.Body, &id, &action) != nil {
			continue
		}
		server := d.offered(signal.Sender, id)
		entry, known := map[string]menuEntry{actionReconnect: entryReconnect, actionShowLog: entryShowLog}[action]
		if server == "" || !known {
			continue // it is on another program's notice
		}
		select {
		case d.asked <- noticeAction{entry: entry, server: server}:
		default: // the user is faster than the app
		}
	}
}

// offered is the MCP server whose buttons are on a notice; "" for another's notice.
func (d *DesktopNotifier) offered(sender string, id uint32) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if sender != d.owner {
		return ""
	}
	for _, notice := range d.notices {
		if notice.id == id {
			return notice.server
		}
	}
	return ""
}

func (d *DesktopNotifier) connect(ctx context.Context) error {
	if d.conn != nil && d.conn.Connected() {
		return nil
	}
	d.Close()
	address, err := busAddress(d.environ)
	if err != nil {
		return err
	}
	conn, err := dialBus(ctx, address)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.owner = ""
	d.mu.Unlock()
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	d.conn = conn
	d.listening.Go(func() { d.listen(signals) })
	// Without the signals there are notices all the same, only with idle buttons.
	_ = conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(notificationsName),
		dbus.WithMatchInterface(notificationsName), dbus.WithMatchMember("ActionInvoked"))
	return nil
}

// meet finds out who shows notifications now. Numbers of notices mean nothing
// to another server: it would replace some other program's notice.
func (d *DesktopNotifier) meet(ctx context.Context) error {
	var owner string
	err := d.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.GetNameOwner", 0, notificationsName).Store(&owner)
	d.mu.Lock()
	known := err == nil && owner == d.owner
	d.mu.Unlock()
	if known {
		return nil
	}
	var capabilities []string
	err = d.server().CallWithContext(ctx, notificationsName+".GetCapabilities", 0).Store(&capabilities)
	if err == nil && owner == "" { // it was started by that call
		err = d.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.GetNameOwner", 0, notificationsName).Store(&owner)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owner, d.notices, d.asking = owner, make(map[string]sent), make(map[string]*dbus.Call)
	if err != nil {
		d.owner = ""
		return noServer(err)
	}
	d.markup = slices.Contains(capabilities, "body-markup")
	d.buttons = slices.Contains(capabilities, "actions")
	return nil
}

func (d *DesktopNotifier) server() dbus.BusObject {
	return d.conn.Object(notificationsName, notificationsPath)
}

// noServer classifies the bus' answer that nobody owns the name and that nobody
// can be started to own it.
func noServer(err error) error {
	var answer dbus.Error
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.Name {
	case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner":
		return fmt.Errorf("%w: %w", errNoServer, err)
	}
	return err
}

// imageData is the hint image-data, (iiibiiay).
type imageData struct {
	Width, Height, Stride int32
	Alpha                 bool
	BitsPerSample         int32
	Channels              int32
	Pixels                []byte
}

func hints(n Notice) map[string]dbus.Variant {
	const urgencyNormal = byte(1)
	img := assets.Image(n.Icon, noticeIconSize)
	return map[string]dbus.Variant{
		"urgency":       dbus.MakeVariant(urgencyNormal),
		"desktop-entry": dbus.MakeVariant("mcp-funnel"),
		"image-data": dbus.MakeVariant(imageData{
			Width: noticeIconSize, Height: noticeIconSize, Stride: int32(img.Stride), //nolint:gosec // 4 × 48
			Alpha: true, BitsPerSample: 8, Channels: 4, Pixels: img.Pix,
		}),
	}
}
