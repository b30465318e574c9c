//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-funnel/cmd/mcp-funnel/e2e/parts"
	"mcp-funnel/core"
)

// withButtons is a desktop whose notifications have buttons that one can click on.
var withButtons = parts.Part{Name: "xfce", Installed: func() map[string]string {
	programs := maps.Clone(xfce.Installed)
	programs[notifyd()] = "xfce4-notifyd"
	return programs
}()}

// notifyd is Xfce's notification server, which is not in PATH.
func notifyd() string {
	if found, err := filepath.Glob("/usr/lib/*/xfce4/notifyd/xfce4-notifyd"); err == nil && len(found) > 0 {
		return found[0]
	}
	return "xfce4-notifyd"
}

// TestPanelSettings clicks on the ticks of the menu and on the buttons of a notification,
// in a dark theme.
func TestPanelSettings(t *testing.T) {
	play(t, "mouse", quickProbe, []parts.Part{withButtons}, func(u *user) string {
		opened := u.fakeOpener()
		d := u.startDesktop("Adwaita:dark", notifyd())
		end := u.start("app", u.command(program, "tray"))
		first := u.server("demo", 0)
		u.status("the icon is shown", func(r core.Report) bool { return r.Mode == "tray" && r.Tray.Shown })
		d.see("the green icon", green, d.tray)
		ticks(u, d)
		d.row(rowEditConfig)
		u.eventually("the configuration is opened", func() bool { return strings.Contains(opened(), "/config.json\n") })

		u.write("down", "")
		process{pid: first.PID}.kill()
		d.sent("demo: slow probe")
		d.button("Show log", 70)
		u.eventually("the log is opened", func() bool { return strings.Contains(opened(), "/server-demo-") })
		if err := os.Remove(u.path("down")); err != nil {
			t.Fatal(err)
		}
		u.server("demo", first.PID)
		d.sent("demo recovered")
		d.quit(end)
		return "ticks for login and notifications, Edit config, Show log on a notification, in a dark theme"
	})
}

// TestPanelButton reconnects a server by the button of its notification.
func TestPanelButton(t *testing.T) {
	config := strings.Replace(quickProbe, `"slowProbeIntervalMs": 1000`, `"slowProbeIntervalMs": 3600000`, 1)
	play(t, "mouse", config, []parts.Part{withButtons}, func(u *user) string {
		d := u.startDesktop("Adwaita", notifyd())
		end := u.start("app", u.command(program, "tray"))
		first := u.server("demo", 0)
		d.see("the green icon", green, d.tray)
		u.write("down", "")
		process{pid: first.PID}.kill()
		d.sent("demo: slow probe")
		if err := os.Remove(u.path("down")); err != nil {
			t.Fatal(err)
		}
		d.button("Reconnect now", 190)
		u.server("demo", first.PID) // it would be tried in an hour
		d.see("the green icon again", green, d.tray)
		d.sent("demo recovered")
		d.quit(end)
		return "Reconnect now on a notification, by mouse"
	})
}

// ticks sets and takes away the ticks for the start at login and for notifications.
func ticks(u *user, d *desktop) {
	u.t.Helper()
	entry := u.path("config/autostart/mcp-funnel.desktop")
	exists := func() bool { _, err := os.Stat(entry); return err == nil }
	d.row(rowAutostart)
	u.eventually("the app is started at login", exists)
	if out := u.must("autostart", u.command(program, "autostart", "status")); out != "on "+entry+"\n" {
		u.t.Errorf("autostart status says %q", out)
	}
	d.row(rowAutostart)
	u.eventually("the app is not started at login", func() bool { return !exists() })

	notifications := func() any {
		var state map[string]any
		text, err := os.ReadFile(u.path("state/mcp-funnel/state.json"))
		if err == nil {
			err = json.Unmarshal(text, &state)
		}
		if err != nil {
			return nil
		}
		return state["notifications"]
	}
	d.row(rowNotifications)
	u.eventually("notifications are off", func() bool { return notifications() == false })
	d.keep("ticks")
	d.row(rowNotifications)
	u.eventually("notifications are on", func() bool { return notifications() == true })
}

// Rows of the menu, by the distance of their middle from its lower end in pixels.
const (
	rowNotifications = 68
	rowAutostart     = 93
	rowEditConfig    = 118
)

// row opens the menu and chooses a row.
func (d *desktop) row(fromBelow int) {
	d.u.t.Helper()
	menu := d.open()
	d.click(menu.x+menu.w/2, menu.y+menu.h-fromBelow)
	d.menus(0)
}

// button clicks on a button of the notification that is shown; fromRight is where its
// middle is, in pixels.
func (d *desktop) button(name string, fromRight int) {
	d.u.t.Helper()
	const fromBelow = 31
	var shown []box
	d.u.eventually("a notification is on the screen", func() bool {
		shown = d.windows("[Xx]fce4-notifyd")
		return len(shown) == 1 && shown[0].h > 2*fromBelow
	})
	d.keep("notification")
	d.click(shown[0].x+shown[0].w-fromRight, shown[0].y+shown[0].h-fromBelow)
	d.u.t.Logf("clicked on %s in %s", name, shown[0])
}

// fakeOpener stands in for the desktop's program that opens files. It returns what
// was opened, a path a line.
func (u *user) fakeOpener() (opened func() string) {
	u.t.Helper()
	if err := os.Mkdir(u.path("opener"), 0o700); err != nil {
		u.t.Fatal(err)
	}
	u.write("opener/xdg-open", "#!/bin/sh\necho \"$1\" >>"+u.path("opened")+"\n")
	if err := os.Chmod(u.path("opener/xdg-open"), 0o700); err != nil {
		u.t.Fatal(err)
	}
	for i, variable := range u.environ {
		if path, ok := strings.CutPrefix(variable, "PATH="); ok {
			u.environ[i] = "PATH=" + u.path("opener") + ":" + path
		}
	}
	return func() string {
		text, err := os.ReadFile(u.path("opened"))
		if err != nil {
			return ""
		}
		return string(text)
	}
}
