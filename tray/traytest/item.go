package traytest

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	watcherName = "org.kde.StatusNotifierWatcher"
	watcherPath = "/StatusNotifierWatcher"
	itemName    = "org.kde.StatusNotifierItem"
	menuName    = "com.canonical.dbusmenu"
)

// Item is a registered tray icon, as a panel sees it.
type Item struct {
	conn *dbus.Conn
	dest string
	path dbus.ObjectPath
}

// WaitItem waits until the process pid has registered an icon at the watcher,
// whether that is a real panel or a [Watcher].
func WaitItem(conn *dbus.Conn, pid int, d time.Duration) (*Item, error) {
	var found *Item
	err := Poll(d, func() error {
		registered, err := conn.Object(watcherName, watcherPath).GetProperty(watcherName + ".RegisteredStatusNotifierItems")
		if err != nil {
			return err
		}
		names, _ := registered.Value().([]string)
		for _, name := range names { // ":1.7/StatusNotifierItem", or a bus name alone
			dest, path, ok := strings.Cut(name, "/")
			if !ok {
				path = "StatusNotifierItem"
			}
			var owner uint32
			call := conn.BusObject().Call("org.freedesktop.DBus.GetConnectionUnixProcessID", 0, dest)
			if call.Store(&owner) == nil && int(owner) == pid {
				found = &Item{conn: conn, dest: dest, path: dbus.ObjectPath("/" + path)}
				return nil
			}
		}
		return fmt.Errorf("process %d has no icon among %q", pid, names)
	})
	return found, err
}

func (i *Item) property(name string) (any, error) {
	v, err := i.conn.Object(i.dest, i.path).GetProperty(itemName + "." + name)
	if err != nil {
		return nil, fmt.Errorf("reading %s of the tray icon: %w", name, err)
	}
	return v.Value(), nil
}

// Text reads a property that is a string: Id, Title, Status, Category, IconName.
func (i *Item) Text(name string) (string, error) {
	v, err := i.property(name)
	if err != nil {
		return "", err
	}
	text, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("property %s of the tray icon is a %T", name, v)
	}
	return text, nil
}

// Tooltip returns the tooltip's first line.
func (i *Item) Tooltip() (string, error) {
	v, err := i.property("ToolTip")
	if err != nil {
		return "", err
	}
	fields, ok := v.([]any)
	if !ok || len(fields) != 4 {
		return "", fmt.Errorf("the tooltip is %v", v)
	}
	title, _ := fields[2].(string)
	return title, nil
}

// Icon decodes the icon: ARGB32 in network byte order, alpha not multiplied in.
func (i *Item) Icon() (*image.NRGBA, error) {
	v, err := i.property("IconPixmap")
	if err != nil {
		return nil, err
	}
	var maps []struct {
		W, H int32
		Pix  []byte
	}
	if err := dbus.Store([]any{v}, &maps); err != nil {
		return nil, fmt.Errorf("reading the icon: %w", err)
	}
	if len(maps) == 0 || maps[0].W == 0 {
		return nil, errors.New("the tray icon has no picture")
	}
	width, pix := int(maps[0].W), maps[0].Pix
	img := image.NewNRGBA(image.Rect(0, 0, width, int(maps[0].H)))
	for n := range len(pix) / 4 {
		p := pix[4*n:]
		img.SetNRGBA(n%width, n/width, color.NRGBA{R: p[1], G: p[2], B: p[3], A: p[0]})
	}
	return img, nil
}
