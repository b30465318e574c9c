//go:build linux || freebsd || openbsd || netbsd

package tray

import (
	"context"
	"errors"
	"fmt"
	"html"
	"slices"

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

	conn *dbus.Conn // nil: not connected
	// owner is the bus name of the server that the fields below are about.
	owner  string
	markup bool
	// ids has the server's number of the last notice with a key. It grows with
	// the number of servers that were ever in trouble.
	ids map[string]uint32
}

// NewNotifier returns the desktop's notifier; environ looks up the address of
// the session bus. It connects to nothing yet.
func NewNotifier(environ func(string) string) *DesktopNotifier {
	return &DesktopNotifier{environ: environ, fallback: newFallback()}
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

// Close ends the connection.
func (d *DesktopNotifier) Close() {
	if d.conn != nil {
		_ = d.conn.Close() // nothing is left to be sent
		d.conn = nil
	}
}

var errNoServer = errors.New("nobody on the session bus shows notifications")

func (d *DesktopNotifier) notify(ctx context.Context, n Notice) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	if err := d.meet(ctx); err != nil {
		return err
	}
	body := n.Body
	if d.markup {
		body = html.EscapeString(body)
	}
	const serverDecides = int32(-1)
	var id uint32
	err := d.server().CallWithContext(ctx, notificationsName+".Notify", 0,
		appName, d.ids[n.Key], "", n.Title, body, []string{}, hints(n), serverDecides).Store(&id)
	if err != nil {
		return noServer(err)
	}
	d.ids[n.Key] = id
	return nil
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
	d.conn, err = dialBus(ctx, address)
	d.owner = ""
	return err
}

// meet finds out who shows notifications now. Numbers of notices mean nothing
// to another server: it would replace some other program's notice.
func (d *DesktopNotifier) meet(ctx context.Context) error {
	var owner string
	err := d.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.GetNameOwner", 0, notificationsName).Store(&owner)
	if err == nil && owner == d.owner {
		return nil
	}
	d.owner, d.ids = owner, make(map[string]uint32)
	var capabilities []string
	err = d.server().CallWithContext(ctx, notificationsName+".GetCapabilities", 0).Store(&capabilities)
	if err != nil {
		d.owner = ""
		return noServer(err)
	}
	d.markup = slices.Contains(capabilities, "body-markup")
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
