//go:build cgo || !darwin

package tray

import (
	"context"
	"runtime"
	"sync"

	"fyne.io/systray"

	"mcp-funnel/assets"
)

// serverRows is how many servers stand in the menu itself. With more of them
// "Quit" would fall off a small screen; the rest goes under "More servers".
const serverRows = 15

// systrayView shows the model with fyne.io/systray. What that library makes
// necessary:
//
//   - Its setters write without locks and cost the panel a reading of the whole
//     menu: one goroutine calls them, and only on a change (see entry).
//   - Removing an entry closes the channel of its clicks, which panics when a
//     click is on its way: entries are hidden and given new titles instead.
//   - An entry cannot be put between others: all the rows of the menu itself
//     exist from the start. Those under "More servers" are added as needed.
//   - The menu must be complete when the function it calls at the start
//     (build) returns, and nothing may block in there.
type systrayView struct {
	host    host
	version string
	icons   assets.Icons

	// built is closed when the menu has been built, ready when show may be called.
	built, ready chan struct{}
	clicked      chan click
	// done ends the goroutines that pass clicks on; set by run.
	done    <-chan struct{}
	passing sync.WaitGroup

	// The fields below belong to run and build and, once ready is closed, to
	// the goroutine that calls show.

	icon         assets.Shape
	tooltip      string
	summary      *entry
	problem      *entry
	rows         []*serverEntry
	more         *entry
	moreItem     *systray.MenuItem
	reconnectAll *entry
	sessions     *entry
	sessionsItem *systray.MenuItem
	sessionLines []*entry
	autostart    *entry
	notices      *entry
	restart      *entry
}

// serverEntry is a server's row with its submenu.
type serverEntry struct {
	row, reconnect, enabled, err, facts *entry
}

func newView(version string) *systrayView {
	return &systrayView{
		host:    hostOf(runtime.GOOS),
		version: version,
		built:   make(chan struct{}),
		ready:   make(chan struct{}),
		clicked: make(chan click),
	}
}

func (v *systrayView) clicks() <-chan click { return v.clicked }

func (v *systrayView) opened() <-chan struct{} { return systray.TrayOpenedCh }

// run shows the tray until ctx ends, beginning with the icon and tooltip of
// first, then calls join, which waits for those who use the view, and takes the
// tray down. It must be called on the main goroutine, once in a process.
func (v *systrayView) run(ctx context.Context, first model, join func()) {
	v.done = ctx.Done()
	v.icon, v.tooltip = first.icon, first.tooltip
	if v.host.bus {
		v.runOnBus(ctx, first)
		join()
		return
	}
	go func() {
		<-ctx.Done()
		join() // before Quit: on macOS a setter after it hangs
		systray.Quit()
	}()
	systray.Run(func() {
		systray.SetTooltip(v.tooltip)
		v.drawIcon()
		v.build(first)
		close(v.ready)
	}, nil)
}

// runOnBus blocks until ctx ends. The library needs no main loop here. It must
// not have one: its loop panics at the end when the bus went away while the
// library connected to it. Without a loop systray.Quit only ends a goroutine, and
// the icon goes when the session closes the connection.
func (v *systrayView) runOnBus(ctx context.Context, first model) {
	registerStraight()
	// Panels remember the icon by its title. The library reads these three when
	// it registers the icon, and loses what is set while it does.
	systray.SetTitle(appName)
	systray.SetTooltip(v.tooltip)
	v.drawIcon()
	start, _ := systray.RunWithExternalLoop(func() { v.build(first) }, nil)
	start()
	<-v.built
	close(v.ready)
	<-ctx.Done()
	systray.Quit()
}

// join waits for the view's goroutines, once nobody calls show any more and the
// context of run has ended.
func (v *systrayView) join() {
	<-v.built
	v.passing.Wait()
}

// build makes the menu and shows first on it: panels read it when build has
// returned, and would read it anew for every change after that. The library
// calls it on a goroutine of its own.
func (v *systrayView) build(first model) {
	defer close(v.built)
	v.summary = newEntry(systray.AddMenuItem("", ""), look{})
	v.problem = newEntry(systray.AddMenuItem("", ""), look{})
	systray.AddSeparator()
	for range serverRows {
		v.addRow(systray.AddMenuItem)
	}
	v.moreItem = systray.AddMenuItem(moreTitle, "")
	v.more = newEntry(v.moreItem, look{title: moreTitle})
	systray.AddSeparator()
	v.reconnectAll = v.add(systray.AddMenuItem, reconnectAllTitle, click{entry: entryReconnectAll})
	v.sessionsItem = systray.AddMenuItem("", "")
	v.sessions = newEntry(v.sessionsItem, look{})
	v.add(systray.AddMenuItem, editConfigTitle, click{entry: entryEditConfig})
	v.autostart = v.addTick(systray.AddMenuItemCheckbox, click{entry: entryAutostart})
	v.notices = v.addTick(systray.AddMenuItemCheckbox, click{entry: entryNotifications})
	systray.AddSeparator()
	version := newEntry(systray.AddMenuItem("", ""), look{})
	version.show(look{title: v.host.escape(appName + " " + v.version), disabled: true})
	v.restart = v.add(systray.AddMenuItem, restartTitle, click{entry: entryRestart})
	v.add(systray.AddMenuItem, quitTitle, click{entry: entryQuit})
	v.show(first)
}

// add adds an entry of that title with add.
func (v *systrayView) add(add func(title, tooltip string) *systray.MenuItem, title string, c click) *entry {
	item := add(title, "")
	v.pass(item, c)
	return newEntry(item, look{title: title})
}

// addTick adds an entry with a tick, to be given its title later.
func (v *systrayView) addTick(add func(title, tooltip string, checked bool) *systray.MenuItem, c click) *entry {
	item := add("", "", false)
	v.pass(item, c)
	return newEntry(item, look{})
}

// Titles that stay.
const (
	moreTitle         = "More servers"
	reconnectAllTitle = "Reconnect all"
	editConfigTitle   = "Edit config…"
	restartTitle      = "Restart to update"
	quitTitle         = "Quit"
	enabledTitle      = "Enabled"
)

// addRow adds a hidden row for one more server with add.
func (v *systrayView) addRow(add func(title, tooltip string) *systray.MenuItem) {
	item, n := add("", ""), len(v.rows)
	e := &serverEntry{row: newEntry(item, look{})}
	e.reconnect = v.add(item.AddSubMenuItem, reconnectTitle, click{entry: entryReconnect, row: n})
	enabled := item.AddSubMenuItemCheckbox(enabledTitle, "", true)
	v.pass(enabled, click{entry: entryEnabled, row: n})
	e.enabled = newEntry(enabled, look{title: enabledTitle, checked: true})
	e.err = newEntry(item.AddSubMenuItem("", ""), look{})
	v.add(item.AddSubMenuItem, showLogTitle, click{entry: entryShowLog, row: n})
	e.facts = newEntry(item.AddSubMenuItem("", ""), look{})
	for _, hidden := range []*entry{e.err, e.facts, e.row} {
		hidden.hide()
	}
	v.rows = append(v.rows, e)
}

// pass hands clicks on item to whoever owns the menu. The library drops a click
// that nobody is waiting for, so the goroutine does nothing else.
func (v *systrayView) pass(item *systray.MenuItem, c click) {
	v.passing.Go(func() {
		for {
			select {
			case <-v.done:
				return
			case <-item.ClickedCh:
			}
			select {
			case <-v.done:
				return
			case v.clicked <- c:
			}
		}
	})
}

// show implements view.
func (v *systrayView) show(m model) {
	v.showIcon(m.icon, m.tooltip)
	v.summary.show(look{title: v.host.escape(m.summary), disabled: true})
	v.problem.showUnlessEmpty(look{title: v.host.escape(m.problem), disabled: true})
	for len(v.rows) < len(m.rows) {
		v.addRow(v.moreItem.AddSubMenuItem)
	}
	more := false
	for i, r := range v.rows {
		if i < len(m.rows) && !m.rows[i].removed {
			v.showRow(r, m.rows[i])
			more = more || i >= serverRows
		} else {
			r.row.hide()
		}
	}
	if more {
		v.more.show(look{title: moreTitle})
	} else {
		v.more.hide()
	}
	v.reconnectAll.show(look{title: reconnectAllTitle, disabled: !m.reconnectAll})
	v.showSessions(m.sessions, m.sessionLines)
	v.showTick(v.autostart, m.autostart)
	v.showTick(v.notices, m.notifications)
	if m.restart {
		v.restart.show(look{title: restartTitle})
	} else {
		v.restart.hide()
	}
}

func (v *systrayView) showSessions(title string, lines []string) {
	for len(v.sessionLines) < len(lines) {
		v.sessionLines = append(v.sessionLines, newEntry(v.sessionsItem.AddSubMenuItem("", ""), look{}))
	}
	for i, e := range v.sessionLines {
		line := ""
		if i < len(lines) {
			line = lines[i]
		}
		e.showUnlessEmpty(look{title: v.host.escape(line), disabled: true})
	}
	v.sessions.show(look{title: title, disabled: len(lines) == 0})
}

func (v *systrayView) showTick(e *entry, t tick) {
	e.showUnlessEmpty(look{title: v.host.escape(t.title), checked: t.on, disabled: t.fixed})
}

func (v *systrayView) showRow(e *serverEntry, r row) {
	e.reconnect.show(look{title: reconnectTitle, disabled: !r.reconnect})
	e.enabled.show(look{title: enabledTitle, checked: r.enabled})
	e.err.showUnlessEmpty(look{title: v.host.escape(r.err), disabled: true})
	e.facts.showUnlessEmpty(look{title: v.host.escape(r.facts), disabled: true})
	e.row.showWithIcon(look{title: v.host.escape(r.label)}, r.icon, v.menuIcon)
}

// showIcon sets what has changed. The tooltip goes first, and with every new
// icon: the bus library keeps the icon in an array that it overwrites, also
// while it may be sending it to a panel that has asked for it. Sending the
// tooltip waits for what is being sent.
func (v *systrayView) showIcon(icon assets.Shape, tooltip string) {
	if v.icon == icon && v.tooltip == tooltip {
		return
	}
	systray.SetTooltip(tooltip)
	v.tooltip = tooltip
	if v.icon != icon {
		v.icon = icon
		v.drawIcon()
	}
}

func (v *systrayView) drawIcon() {
	const panelSize, macSize = 48, 36 // pixels; panels scale down, macOS shows 18 points
	switch {
	case v.host.ico:
		systray.SetIcon(v.icons.ICO(v.icon))
	case v.host.bus:
		setBusIcon(straightIcon(v.icons.PNG(v.icon, panelSize)))
	default:
		systray.SetTemplateIcon(v.icons.TemplatePNG(v.icon, macSize), v.icons.PNG(v.icon, macSize))
	}
}

// setBusIcon sets the icon unless the bus has just gone: the library panics then,
// with the error of the failed write, and has no other way to change an icon. The
// session notices by itself that the bus has gone.
func setBusIcon(data []byte) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case runtime.Error:
			panic(r)
		case error:
		default:
			panic(r)
		}
	}()
	systray.SetIcon(data)
}

func (v *systrayView) menuIcon(s assets.Shape) []byte {
	const size = 32 // pixels; shown at 16, sharp on fine screens
	if v.host.ico {
		return v.icons.MenuICO(s)
	}
	return v.icons.MenuPNG(s, size)
}
