package tray

import "mcp-funnel/assets"

// model is what the tray shows. Texts are plain: the view takes care of what
// its host would swallow.
type model struct {
	icon    assets.Shape
	tooltip string
	// summary is the first row of the menu.
	summary string
	// problem is why the configuration could not be taken over; "" hides the row.
	problem string
	// rows has one element for each server, in the order of the menu.
	rows []row
	// reconnectAll: there is a server that could be reconnected.
	reconnectAll bool
}

// row is a server in the menu, with its submenu.
type row struct {
	server string
	label  string
	icon   assets.Shape
	// err is the last error; "" hides its row in the submenu.
	err string
	// reconnect: "Reconnect now" can be chosen.
	reconnect bool
	// enabled is the tick of "Enabled".
	enabled bool
}

// menuEntry is an entry of the menu that can be clicked.
type menuEntry int

const (
	entryReconnect menuEntry = iota
	entryEnabled
	entryReconnectAll
	entryQuit
)

// click is a click on an entry; row counts rows of the menu, where the entry
// belongs to one.
type click struct {
	entry menuEntry
	row   int
}

// command is what a click asks the funnel to do.
type command struct {
	entry  menuEntry
	server string
	on     bool
}

// command translates a click on the menu as m shows it. It refuses what m shows
// as disabled or not at all: the library passes such clicks on.
func (m model) command(c click) (command, bool) {
	switch c.entry {
	case entryQuit:
		return command{entry: entryQuit}, true
	case entryReconnectAll:
		return command{entry: entryReconnectAll}, m.reconnectAll
	case entryReconnect, entryEnabled:
	}
	if c.row < 0 || c.row >= len(m.rows) {
		return command{}, false
	}
	r := m.rows[c.row]
	if c.entry == entryReconnect {
		return command{entry: entryReconnect, server: r.server}, r.reconnect
	}
	return command{entry: entryEnabled, server: r.server, on: !r.enabled}, true
}
