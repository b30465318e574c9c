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
	// rows has one element for each server, in the order of the menu, and one for each
	// that was removed since the menu opened.
	rows []row
	// reconnectAll: there is a server that could be reconnected.
	reconnectAll bool
	// sessions is the title of the submenu that has a line for each client.
	sessions     string
	sessionLines []string
	// autostart and notifications are settings of the user.
	autostart, notifications tick
	// restart: a newer program is in place and could be started.
	restart bool
}

// row is a server in the menu, with its submenu.
type row struct {
	// removed: the server is no more. Its row is hidden but keeps its place, or a click
	// would mean another server than the one that the user sees.
	removed bool
	server  string
	label   string
	icon    assets.Shape
	// err is the last error; "" hides its row in the submenu.
	err string
	// facts is what is to be known of a server that works; "" hides its row.
	facts string
	// reconnect: "Reconnect now" can be chosen.
	reconnect bool
	// enabled is the tick of "Enabled".
	enabled bool
}

// tick is a row with a tick.
type tick struct {
	title string // "" hides the row
	on    bool
	// fixed: it cannot be chosen.
	fixed bool
}

// Titles of entries that are elsewhere as well.
const (
	reconnectTitle     = "Reconnect now"
	showLogTitle       = "Show log"
	autostartTitle     = "Start at login"
	notificationsTitle = "Notifications"
)

// menuEntry is an entry of the menu that can be clicked.
type menuEntry int

const (
	entryReconnect menuEntry = iota
	entryEnabled
	entryShowLog
	entryReconnectAll
	entryEditConfig
	entryAutostart
	entryNotifications
	entryRestart
	entryQuit
)

// click is a click on an entry; row counts rows of the menu, where the entry
// belongs to one.
type click struct {
	entry menuEntry
	row   int
}

// command is what a click asks the funnel or the desktop to do.
type command struct {
	entry  menuEntry
	server string
	on     bool
}

// command translates a click on the menu as m shows it. It refuses what m shows
// as disabled or not at all: the library passes such clicks on.
func (m model) command(c click) (command, bool) {
	switch c.entry {
	case entryQuit, entryEditConfig:
		return command{entry: c.entry}, true
	case entryReconnectAll:
		return command{entry: c.entry}, m.reconnectAll
	case entryRestart:
		return command{entry: c.entry}, m.restart
	case entryAutostart:
		return m.autostart.command(c.entry)
	case entryNotifications:
		return m.notifications.command(c.entry)
	case entryReconnect, entryEnabled, entryShowLog:
	}
	if c.row < 0 || c.row >= len(m.rows) || m.rows[c.row].removed {
		return command{}, false
	}
	r := m.rows[c.row]
	switch c.entry {
	case entryReconnect:
		return command{entry: c.entry, server: r.server}, r.reconnect
	case entryShowLog:
		return command{entry: c.entry, server: r.server}, true
	default:
		return command{entry: entryEnabled, server: r.server, on: !r.enabled}, true
	}
}

// command is what a click on the tick asks for.
func (t tick) command(entry menuEntry) (command, bool) {
	return command{entry: entry, on: !t.on}, t.title != "" && !t.fixed
}

// what names a command for the person who gave it.
func (c command) what() string {
	switch c.entry {
	case entryReconnect:
		return "Reconnecting " + c.server
	case entryEnabled:
		if c.on {
			return "Enabling " + c.server
		}
		return "Disabling " + c.server
	case entryShowLog:
		return "Showing the log of " + c.server
	case entryReconnectAll:
		return "Reconnecting all servers"
	case entryEditConfig:
		return "Opening the configuration"
	case entryAutostart:
		return "Changing the start at login"
	case entryNotifications:
		return "Switching notifications"
	case entryRestart:
		return "Restarting"
	case entryQuit:
		return "Quitting"
	}
	return "The command"
}
