package traytest

import (
	"fmt"
	"strings"

	"github.com/godbus/dbus/v5"
)

// Entry is an entry of a menu, as a panel sees it. Labels are as on the bus, with
// underscores doubled.
type Entry struct {
	ID        int32
	Label     string
	Separator bool
	Enabled   bool
	Visible   bool
	// Checkable: it can have a tick, and has one when On.
	Checkable, On bool
	Icon          []byte // PNG
	Children      []*Entry
}

type layout struct {
	ID       int32
	Props    map[string]dbus.Variant
	Children []dbus.Variant
}

func (i *Item) menuObject() (dbus.BusObject, error) {
	v, err := i.property("Menu")
	if err != nil {
		return nil, err
	}
	path, _ := v.(dbus.ObjectPath)
	return i.conn.Object(i.dest, path), nil
}

// Menu reads the whole menu.
func (i *Item) Menu() (*Entry, error) {
	object, err := i.menuObject()
	if err != nil {
		return nil, err
	}
	var root layout
	var revision uint32
	// The tray library answers the first reading without submenus, to work
	// around an error of a panel's library: read twice.
	for range 2 {
		call := object.Call(menuName+".GetLayout", 0, int32(0), int32(-1), []string{})
		if err := call.Store(&revision, &root); err != nil {
			return nil, fmt.Errorf("reading the menu: %w", err)
		}
	}
	return root.entry()
}

func (l layout) entry() (*Entry, error) {
	flag := func(name string) bool { // both are true unless given
		v, given := l.Props[name].Value().(bool)
		return v || !given
	}
	e := &Entry{ID: l.ID, Enabled: flag("enabled"), Visible: flag("visible")}
	e.Label, _ = l.Props["label"].Value().(string)
	kind, _ := l.Props["type"].Value().(string)
	e.Separator = kind == "separator"
	toggle, _ := l.Props["toggle-type"].Value().(string)
	e.Checkable = toggle == "checkmark"
	state, _ := l.Props["toggle-state"].Value().(int32)
	e.On = state == 1
	e.Icon, _ = l.Props["icon-data"].Value().([]byte)
	for _, raw := range l.Children {
		var child layout
		if err := dbus.Store([]any{raw.Value()}, &child); err != nil {
			return nil, fmt.Errorf("reading the menu: %w", err)
		}
		entry, err := child.entry()
		if err != nil {
			return nil, err
		}
		e.Children = append(e.Children, entry)
	}
	return e, nil
}

// Find follows visible entries by their labels and returns nil where there is
// none. A label matches when it is the step or, failing that, begins with it.
func (e *Entry) Find(path ...string) *Entry {
	for _, step := range path {
		var hit *Entry
		for _, child := range e.Children {
			if child.Visible && child.Label == step {
				hit = child
				break
			}
			if hit == nil && child.Visible && strings.HasPrefix(child.Label, step) {
				hit = child
			}
		}
		if hit == nil {
			return nil
		}
		e = hit
	}
	return e
}

// String outlines what can be seen of the menu: one line each, submenus
// indented, (label) for what cannot be chosen, [x] and [ ] for ticks.
func (e *Entry) String() string {
	var b strings.Builder
	e.outline(&b, "")
	return b.String()
}

func (e *Entry) outline(b *strings.Builder, indent string) {
	for _, child := range e.Children {
		if !child.Visible {
			continue
		}
		line := child.Label
		switch {
		case child.Separator:
			line = "---"
		case !child.Enabled:
			line = "(" + line + ")"
		case child.Checkable && child.On:
			line = "[x] " + line
		case child.Checkable:
			line = "[ ] " + line
		}
		fmt.Fprintf(b, "%s%s\n", indent, line)
		child.outline(b, indent+"  ")
	}
}

// Click chooses the entry at a path of labels (see [Entry.Find]). Like a panel
// it refuses one that is disabled.
func (i *Item) Click(path ...string) error {
	menu, err := i.Menu()
	if err != nil {
		return err
	}
	entry := menu.Find(path...)
	if entry == nil {
		return fmt.Errorf("no menu entry %q in\n%s", path, menu)
	}
	if !entry.Enabled {
		return fmt.Errorf("menu entry %q cannot be chosen", path)
	}
	return i.Send(entry.ID, "clicked")
}

// Open tells the program that the user opens the menu, as GNOME and KDE do.
func (i *Item) Open() error { return i.Send(0, "opened") }

// AboutToShow asks, before the menu opens, whether it has to be read again. That
// is all that panels tell which use libdbusmenu, like Xfce's.
func (i *Item) AboutToShow() error {
	object, err := i.menuObject()
	if err != nil {
		return err
	}
	if call := object.Call(menuName+".AboutToShowGroup", 0, []int32{0}); call.Err != nil {
		return fmt.Errorf("announcing the menu: %w", call.Err)
	}
	return nil
}

// Send sends an event for an entry, unlike [Item.Click] also one that no panel
// would send.
func (i *Item) Send(id int32, event string) error {
	object, err := i.menuObject()
	if err != nil {
		return err
	}
	call := object.Call(menuName+".Event", 0, id, event, dbus.MakeVariant(int32(0)), uint32(0))
	if call.Err != nil {
		return fmt.Errorf("sending %q to the menu: %w", event, call.Err)
	}
	return nil
}
