//go:build linux

package tray

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-funnel/assets"
	"mcp-funnel/core/status"
	"mcp-funnel/tray/traytest"
)

// desktop is a bus with a panel and a notification server on it.
type desktop struct {
	*traytest.Bus
	watcher *traytest.Watcher
	notices *traytest.Notifications
}

func newDesktop(t *testing.T, capabilities ...string) *desktop {
	t.Helper()
	d := &desktop{Bus: traytest.StartBus(t)}
	var err error
	if d.watcher, err = traytest.NewWatcher(d.Connect(t)); err != nil {
		t.Fatal(err)
	}
	if d.notices, err = traytest.NewNotifications(d.Connect(t), capabilities...); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *desktop) address() string { return "DBUS_SESSION_BUS_ADDRESS=" + d.Address }

// item waits for the tray of a.
func (d *desktop) item(t *testing.T, a *app) *traytest.Item {
	t.Helper()
	item, err := traytest.WaitItem(d.Connect(t), a.cmd.Process.Pid, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return item
}

// next is the next notification.
func (d *desktop) next(t *testing.T) traytest.Notification {
	t.Helper()
	select {
	case n := <-d.notices.Shown():
		return n
	case <-time.After(10 * time.Second):
		t.Fatal("no notification")
		return traytest.Notification{}
	}
}

// waitMenu waits until the menu looks like want.
func waitMenu(t *testing.T, item *traytest.Item, want string) {
	t.Helper()
	err := traytest.Poll(10*time.Second, func() error {
		menu, err := item.Menu()
		if err != nil {
			return err
		}
		if got := menu.String(); got != want {
			return fmt.Errorf("the menu is\n%s\nwant\n%s", got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTrayShowsAndObeysTheMenu(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	item := d.item(t, a)
	a.set(
		up("file_system", 12),
		probing("github", "the process exited with code 1"),
		status.Server{Name: "slack", State: status.Disabled},
	)
	waitMenu(t, item, `(1 of 2 servers connected)
---
github: slow probe, trying now
  Reconnect now
  [x] Enabled
  (the process exited with code 1)
  Show log
file__system: connected, 12 tools
  Reconnect now
  [x] Enabled
  Show log
  (12 tools)
slack: disabled
  (Reconnect now)
  [ ] Enabled
  Show log
---
Reconnect all
(Sessions: none)
Edit config…
[ ] Start at login
[x] Notifications
---
(MCP Funnel 1.2__3)
Quit
`)
	if err := item.Click("github", "Reconnect now"); err != nil {
		t.Fatal(err)
	}
	a.wait("reconnect github", 1)
	if err := item.Click("file__system", "Enabled"); err != nil {
		t.Fatal(err)
	}
	a.wait("enable file_system false", 1)
	waitTick := func(path string, on bool) {
		t.Helper()
		err := traytest.Poll(10*time.Second, func() error {
			menu, err := item.Menu()
			if err != nil {
				return err
			}
			if menu.Find(path, "Enabled").On != on {
				return fmt.Errorf("the tick is not %v:\n%s", on, menu)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	waitTick("file__system", false)
	if err := item.Click("file__system", "Enabled"); err != nil {
		t.Fatal(err)
	}
	a.wait("enable file_system true", 1)
	waitTick("file__system", true)
	if err := item.Click("Reconnect all"); err != nil {
		t.Fatal(err)
	}
	a.wait("reconnect all", 1)
	if err := item.Click("Quit"); err != nil {
		t.Fatal(err)
	}
	a.wait("quit", 1)
	a.finish()
	if a.count("run returned: <nil>") != 1 {
		t.Errorf("Run did not return nil: %q", a.lines)
	}
}

// The library passes clicks on disabled entries on; panels do not send them, but
// may be late.
func TestTrayIgnoresClicksOnDisabledEntries(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	item := d.item(t, a)
	a.set(status.Server{Name: "slack", State: status.Disabled}, up("files", 1))
	var menu *traytest.Entry
	err := traytest.Poll(10*time.Second, func() (err error) {
		if menu, err = item.Menu(); err == nil && menu.Find("slack", "Reconnect now") == nil {
			err = fmt.Errorf("no such row:\n%s", menu)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := item.Send(menu.Find("slack", "Reconnect now").ID, "clicked"); err != nil {
		t.Fatal(err)
	}
	if err := item.Click("files", "Reconnect now"); err != nil {
		t.Fatal(err)
	}
	a.wait("reconnect files", 1)
	if a.count("reconnect slack") != 0 {
		t.Error("a disabled entry was obeyed")
	}
}

func TestTrayIconIsTheWorstState(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	item := d.item(t, a)
	a.set(up("files", 3), probing("github", "gone"))
	waitRow(t, item, "github: slow probe") // set after the icon
	want := assets.Image(assets.Octagon, 48)
	got, err := item.Icon()
	if err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for y := range 48 {
		for x := range 48 {
			if w := want.NRGBAAt(x, y); w.A > 0 && w != got.NRGBAAt(x, y) {
				wrong++
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d pixels differ from the octagon", wrong)
	}
	if got, err := item.Tooltip(); err != nil || got != "MCP Funnel: 1 of 2 servers connected" {
		t.Errorf("tooltip %q, %v", got, err)
	}
	for name, want := range map[string]string{"Id": "MCP Funnel", "Title": "MCP Funnel"} {
		if got, err := item.Text(name); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}

// C115: an item that calls itself passive is hidden by GNOME.
func TestC115_HealthyTrayIsNotPassive(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	item := d.item(t, a)
	a.set(up("files", 3))
	a.wait("updated", 1)
	if got, err := item.Text("Status"); err != nil || got != "Active" {
		t.Errorf("status %q, %v; want Active", got, err)
	}
}

func TestFaultIsNotifiedAndItsRecoveryReplacesIt(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	d.item(t, a)
	a.set(probing("github", "the process exited with code 1"), up("files", 1))
	fault := d.next(t)
	if fault.Summary != "github: slow probe" || fault.Body != "the process exited with code 1" || fault.Replaces != 0 {
		t.Errorf("fault: %q, %q, replaces %d", fault.Summary, fault.Body, fault.Replaces)
	}
	if fault.App != "MCP Funnel" {
		t.Errorf("app %q", fault.App)
	}
	a.wait(`event notification.sent "github: slow probe" slow_probe`, 1)
	a.set(up("github", 26), up("files", 1))
	recovery := d.next(t)
	if recovery.Summary != "github recovered" || recovery.Replaces != fault.ID {
		t.Errorf("recovery: %q replaces %d, want the fault's %d", recovery.Summary, recovery.Replaces, fault.ID)
	}
	a.wait(`event notification.sent "github recovered" connected`, 1)
}

func TestQuietTraySendsNothing(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address(), "QUIET=1")
	item := d.item(t, a)
	a.set(probing("github", "gone"))
	waitRow(t, item, "github: slow probe")
	<-time.After(gatherFor + time.Second) // when it would have come
	a.finish()
	if len(d.notices.Shown()) != 0 || a.count("event notification.sent") != 0 {
		t.Error("a notification although they are switched off")
	}
}

// waitRow waits for a row of the menu.
func waitRow(t *testing.T, item *traytest.Item, label string) {
	t.Helper()
	err := traytest.Poll(10*time.Second, func() error {
		menu, err := item.Menu()
		if err == nil && menu.Find(label) == nil {
			err = fmt.Errorf("no row %q in\n%s", label, menu)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// C113: a panel that goes and comes back.
func TestC113_TrayComesBackWithThePanel(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	d.item(t, a)
	a.set(up("files", 1))
	a.wait("tray true", 1)
	if err := d.watcher.Release(); err != nil {
		t.Fatal(err)
	}
	a.wait("tray false no panel shows tray icons; on GNOME install the AppIndicator extension", 1)
	if err := d.watcher.Claim(); err != nil {
		t.Fatal(err)
	}
	item := d.item(t, a)
	a.wait("tray true", 2)
	waitRow(t, item, "files: connected, 1 tool")
	if err := item.Click("files", "Reconnect now"); err != nil {
		t.Fatal(err)
	}
	a.wait("reconnect files", 1)
}

// The panel may start long after the app.
func TestTrayWaitsForAPanel(t *testing.T) {
	t.Parallel()
	bus := traytest.StartBus(t)
	a := startApp(t, "DBUS_SESSION_BUS_ADDRESS="+bus.Address)
	a.wait("tray false no panel", 1)
	watcher, err := traytest.NewWatcher(bus.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	d := &desktop{Bus: bus, watcher: watcher}
	d.item(t, a)
	a.wait("tray true", 1)
}

// A panel that starts just when the tray library has found none is not noticed
// by it.
func TestTrayIsOfferedAgainToAPanelThatDoesNotHaveIt(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	d.watcher.LoseNext()
	a := startApp(t, d.address())
	d.item(t, a)
	if n := d.watcher.Offers(); n != 2 {
		t.Errorf("offered %d times, want the one that was lost and one more", n)
	}
}

func TestTrayIsOfferedOnce(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	d.item(t, a)
	<-time.After(registerGrace + 500*time.Millisecond) // when a second offer would have come
	if n := d.watcher.Offers(); n != 1 {
		t.Errorf("offered %d times", n)
	}
}

// C112: no bus at all; the rest of the app goes on and quits cleanly.
func TestC112_NoBus(t *testing.T) {
	t.Parallel()
	for name, variables := range map[string][]string{
		"nothing set": nil,
		"dead":        {"DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent/bus"},
		"autolaunch":  {"DBUS_SESSION_BUS_ADDRESS=autolaunch:"},
	} {
		t.Run(name, func(t *testing.T) {
			a := startApp(t, variables...)
			a.wait("run returned: tray unavailable", 1)
			a.set(up("files", 1)) // the board still works
			a.wait("updated", 1)
			a.finish()
			if n := strings.Count(a.stderr.String(), "tray unavailable"); n != 2 { // message and error
				t.Errorf("stderr does not tell once that the tray is unavailable:\n%s", a.stderr.String())
			}
			if n := strings.Count(a.stderr.String(), "\n"); n != 1 {
				t.Errorf("%d lines instead of one:\n%s", n, a.stderr.String())
			}
		})
	}
}

// C112: the bus goes away under a running tray.
func TestC112_BusDies(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	d.item(t, a)
	a.set(up("files", 1))
	a.wait("tray true", 1)
	d.Stop()
	a.wait("run returned: tray unavailable: the connection to the session bus was lost", 1)
	a.wait("tray false tray unavailable", 1)
	a.set(probing("files", "gone"))
	a.wait("updated", 2)
}

// A bus that stops answering must not keep the app from quitting.
func TestFrozenBusDoesNotHoldUpQuitting(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	d.item(t, a)
	a.wait("tray true", 1)
	if err := d.Freeze(); err != nil {
		t.Fatal(err)
	}
	a.set(probing("files", "gone"))
	a.wait("updated", 1)
	a.finish()
}

func TestBusIsFoundInTheRuntimeDir(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, "XDG_RUNTIME_DIR="+d.RuntimeDir)
	d.item(t, a)
}

// C116: a notification server that never answers costs notices, nothing else.
func TestC116_HangingNotificationServer(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	thaw := d.notices.Hang()
	defer thaw()
	a := startApp(t, d.address())
	item := d.item(t, a)
	for i := range 100 {
		if i%2 == 0 {
			a.set(probing("github", "gone"))
		} else {
			a.set(up("github", 1))
		}
	}
	waitRow(t, item, "github: connected, 1 tool")
	a.set(probing("github", "gone"))
	waitRow(t, item, "github: slow probe")
	<-time.After(gatherFor + time.Second) // by now the notice hangs
	if err := item.Click("github", "Reconnect now"); err != nil {
		t.Fatal(err)
	}
	a.wait("reconnect github", 1)
	<-time.After(noticeDeadline) // by now it is given up
	a.finish()
	if a.count("event notification.sent") != 0 {
		t.Error("a notification counts as sent although the server never took it")
	}
	if n := strings.Count(a.stderr.String(), "notification not shown"); n != 1 {
		t.Errorf("%d notices were given up, want the one", n)
	}
}

// C116: no notification server and no other way to show one.
func TestC116_NoNotificationServer(t *testing.T) {
	t.Parallel()
	bus := traytest.StartBus(t)
	if _, err := traytest.NewWatcher(bus.Connect(t)); err != nil {
		t.Fatal(err)
	}
	d := &desktop{Bus: bus}
	a := startApp(t, d.address())
	item := d.item(t, a)
	a.set(probing("github", "gone"))
	waitRow(t, item, "github: slow probe")
	a.set(up("github", 1))
	waitRow(t, item, "github: connected")
	a.finish()
}

func TestHostileNames(t *testing.T) {
	t.Parallel()
	d := newDesktop(t, "body-markup")
	a := startApp(t, d.address())
	item := d.item(t, a)
	hostile := "<b>a</b>\nQuit \u202eevil & _x\x1b\x00"
	a.set(probing(hostile, "<img src='http://127.0.0.1/'>\r\n\u2066x & y"))
	const row = "<b>a</b> Quit evil & __x: slow probe, trying now"
	waitRow(t, item, row)
	menu, err := item.Menu()
	if err != nil {
		t.Fatal(err)
	}
	if got := menu.Find(row).Children[2].Label; got != "<img src='http://127.0.0.1/'> x & y" {
		t.Errorf("last error %q", got)
	}
	n := d.next(t)
	if n.Summary != "<b>a</b> Quit evil & _x: slow probe" { // a summary is never markup
		t.Errorf("summary %q", n.Summary)
	}
	if want := "&lt;img src=&#39;http://127.0.0.1/&#39;&gt; x &amp; y"; n.Body != want {
		t.Errorf("body %q, want %q", n.Body, want)
	}
	if err := item.Click(row, "Reconnect now"); err != nil {
		t.Fatal(err)
	}
	a.wait("reconnect <b>a</b>", 1)
}

func TestManyServersGoUnderMore(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	item := d.item(t, a)
	var servers []status.Server
	for i := range 20 {
		servers = append(servers, up(fmt.Sprintf("s%02d", i), i))
	}
	a.set(servers...)
	waitRow(t, item, "s14")
	waitRow(t, item, "More servers")
	if err := item.Click("More servers", "s19", "Reconnect now"); err != nil {
		t.Fatal(err)
	}
	a.wait("reconnect s19", 1)

	servers[19].State = status.SlowProbe
	a.set(servers...)
	d.next(t)
	if menu, err := item.Menu(); err != nil || menu.Find("More servers", "s19: slow probe") == nil {
		t.Errorf("the row moved while the menu may be open: %v\n%s", err, menu)
	}
	if err := item.Open(); err != nil {
		t.Fatal(err)
	}
	waitRow(t, item, "s19: slow probe")

	a.set(servers[:2]...)
	err := traytest.Poll(10*time.Second, func() error {
		menu, err := item.Menu()
		if err == nil && (menu.Find("More servers") != nil || menu.Find("s02") != nil) {
			err = fmt.Errorf("rows are left over:\n%s", menu)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Panels say in two ways that they open the menu; both sort the rows.
func TestRowsAreSortedWhenTheMenuOpens(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*traytest.Item) error{
		"event": (*traytest.Item).Open, "about to show": (*traytest.Item).AboutToShow,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesktop(t)
			a := startApp(t, d.address())
			item := d.item(t, a)
			a.set(up("a", 1), up("b", 1))
			waitRow(t, item, "b: connected")
			a.set(up("a", 1), probing("b", "gone"))
			waitRow(t, item, "b: slow probe")
			rowsAre := func(want ...string) error {
				menu, err := item.Menu()
				if err != nil {
					return err
				}
				var got []string
				for _, e := range menu.Children {
					if e.Visible && len(e.Children) > 0 {
						got = append(got, e.Label[:1])
					}
				}
				if !slices.Equal(got, want) {
					return fmt.Errorf("rows %q, want %q", got, want)
				}
				return nil
			}
			if err := rowsAre("a", "b"); err != nil {
				t.Error(err)
			}
			err := traytest.Poll(10*time.Second, func() error {
				// Again and again: the watch may not stand yet.
				if err := open(item); err != nil {
					return err
				}
				return rowsAre("b", "a")
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
