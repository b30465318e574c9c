//go:build e2e && linux

package e2e

import (
	"os"
	"testing"
	"time"

	"mcp-funnel/assets"
	"mcp-funnel/cmd/mcp-funnel/e2e/parts"
	"mcp-funnel/core"
	"mcp-funnel/core/status"
)

// quickProbe is a config whose server gives up after two attempts and is probed each
// second; it is down while the file is there.
const quickProbe = `{
  "mcpServers": { "demo": { "command": "$PROGRAM", "args": ["demo-server", "--down-while", "$DIR/down"] } },
  "reconnect": { "maxAttempts": 2, "initialDelayMs": 50, "slowProbeIntervalMs": 1000, "jitter": 0 },
  "notifications": { "quietAfterStartMs": 0 }
}`

// Colours of icons. The panel draws their inner parts as they are.
var (
	green = assets.TickDisc.Colour()
	red   = assets.Octagon.Colour()
)

// TestPanel uses the tray as a person does: sees the icon in Xfce's panel, opens its
// menu by mouse, chooses entries, and sees notifications. The pictures are kept.
func TestPanel(t *testing.T) {
	play(t, "mouse", quickProbe, []parts.Part{xfce}, func(u *user) string {
		d := u.startDesktop()
		end := u.start("app", u.command(program, "tray"))
		first := u.server("demo", 0)
		u.status("the icon is shown", func(r core.Report) bool { return r.Mode == "tray" && r.Tray.Shown })
		d.see("the green icon", green, d.tray)
		d.keep("icon")
		d.reconnect()
		second := u.server("demo", first.PID)
		slowProbe(u, d, second)
		recovery(u, d)
		d.quit(end)
		return "icon, menu and Reconnect by mouse, notifications of slow probe and recovery, Quit by mouse"
	})
}

// reconnect chooses Reconnect in the submenu of the only server.
func (d *desktop) reconnect() {
	d.u.t.Helper()
	menu := d.open()
	x, y := d.see("the server's row", green, func() box { return menu })
	d.point(x+10, y) // on the label
	sub := d.menus(2)[1]
	d.keep("submenu")
	d.click(sub.x+sub.w/2, sub.y+firstRow)
	d.menus(0)
}

// firstRow is where the first entry of a submenu is that has no error to show, in
// pixels from the top.
const firstRow = 16

// open opens the menu by a click on the icon.
func (d *desktop) open() box {
	d.u.t.Helper()
	tray := d.tray()
	d.click(tray.x+tray.w/2, tray.y+tray.h/2)
	menu := d.menus(1)[0]
	d.keep("menu")
	return menu
}

// slowProbe takes the server away for longer.
func slowProbe(u *user, d *desktop, server status.Server) {
	u.t.Helper()
	u.write("down", "")
	process{pid: server.PID}.kill()
	d.notified("demo: slow probe")
	d.see("the red icon", red, d.tray)
	d.keep("slow-probe")
}

// recovery brings it back.
func recovery(u *user, d *desktop) {
	u.t.Helper()
	if err := os.Remove(u.path("down")); err != nil {
		u.t.Fatal(err)
	}
	d.notified("demo recovered")
	d.see("the green icon again", green, d.tray)
	d.keep("recovered")
}

// quit chooses the menu's last entry and waits until the app has ended well.
func (d *desktop) quit(end <-chan error) {
	d.u.t.Helper()
	menu := d.open()
	d.click(menu.x+menu.w/2, menu.y+menu.h-firstRow)
	select {
	case err := <-end:
		if err != nil {
			d.u.t.Errorf("the app after Quit: %v", err)
		}
	case <-time.After(patience):
		d.u.t.Fatal("the app did not end on Quit")
	}
	d.u.eventually("the icon is gone", func() bool {
		_, _, found := d.find(green, box{0, 0, 900, panelHeight})
		return !found
	})
	d.u.ended = true
	d.u.nothingLeft()
}
