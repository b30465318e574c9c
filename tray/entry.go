package tray

import "mcp-funnel/assets"

// menuItem is what an entry needs of the tray library's menu items.
type menuItem interface {
	SetTitle(string)
	SetIcon([]byte)
	Enable()
	Disable()
	Check()
	Uncheck()
	Show()
	Hide()
}

// look is all that can be seen of an entry but its icon.
type look struct {
	title    string
	disabled bool
	checked  bool
}

// entry is one entry of the menu. It remembers what it looks like and calls the
// library only for what differs: on Linux every call makes the panel read the
// whole menu again, on Windows every icon takes a handle that is never freed.
type entry struct {
	item   menuItem
	look   look
	hidden bool
	icon   assets.Shape
	iconic bool // has an icon
}

// newEntry takes over an item that is visible and has that look.
func newEntry(item menuItem, has look) *entry { return &entry{item: item, look: has} }

// show makes the entry visible with that look. A hidden entry is changed first,
// so that its old text does not flash up.
func (e *entry) show(want look) {
	if e.look.title != want.title {
		e.item.SetTitle(want.title)
	}
	if e.look.disabled != want.disabled {
		set(want.disabled, e.item.Disable, e.item.Enable)
	}
	if e.look.checked != want.checked {
		set(want.checked, e.item.Check, e.item.Uncheck)
	}
	e.look = want
	if e.hidden {
		e.hidden = false
		e.item.Show()
	}
}

// showUnlessEmpty hides an entry that has nothing to say. Hidden entries are
// left as they are: on Windows a new title makes them visible.
func (e *entry) showUnlessEmpty(want look) {
	if want.title == "" {
		e.hide()
		return
	}
	e.show(want)
}

// showWithIcon is show with an icon, which draw makes.
func (e *entry) showWithIcon(want look, icon assets.Shape, draw func(assets.Shape) []byte) {
	if !e.iconic || e.icon != icon {
		e.icon, e.iconic = icon, true
		e.item.SetIcon(draw(icon))
	}
	e.show(want)
}

func (e *entry) hide() {
	if !e.hidden {
		e.hidden = true
		e.item.Hide()
	}
}

func set(on bool, yes, no func()) {
	if on {
		yes()
	} else {
		no()
	}
}
