//go:build e2e && linux

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// desktop is a panel, a bus and a notification server on a screen of their own, with
// a mouse.
type desktop struct {
	u *user
	// pictures counts screenshots.
	pictures int
}

// box is a part of the screen, in pixels.
type box struct{ x, y, w, h int }

func (b box) String() string { return fmt.Sprintf("%dx%d at %d,%d", b.w, b.h, b.x, b.y) }

// startDesktop starts a desktop and puts the user on it. It ends with the test. The
// arguments are those of the script after the folder.
func (u *user) startDesktop(args ...string) *desktop {
	u.t.Helper()
	script, err := filepath.Abs("testdata/desktop.sh")
	if err != nil {
		u.t.Fatal(err)
	}
	cmd := u.command(script, append([]string{u.path("desktop")}, args...)...)
	// The desktop is not the user's instance, and does not have to end with it.
	cmd.Env = append(cmd.Env, "MCP_FUNNEL_E2E="+u.desktopMark(), "PATH="+os.Getenv("PATH"))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		u.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		u.t.Fatal(err)
	}
	cmd.Stderr = u.log("desktop.err")
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() {
		_ = stdin.Close()
		hung := time.AfterFunc(patience, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
		defer hung.Stop()
		_ = cmd.Wait()
		for _, p := range u.marked(u.desktopMark()) {
			u.t.Errorf("left of the desktop: %s", p)
		}
		if u.t.Failed() {
			_ = os.CopyFS(filepath.Join(u.out, "desktop"), os.DirFS(u.path("desktop/log")))
		}
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if lines.Text() == "ready" {
			d := &desktop{u: u}
			u.t.Cleanup(func() {
				if u.t.Failed() {
					d.keep("failed")
				}
			})
			return d
		}
		u.environ = append(u.environ, lines.Text())
	}
	u.t.Fatal("the desktop did not start")
	return nil
}

// desktopMark marks the processes of the user's desktop.
func (u *user) desktopMark() string { return u.dir + "/desktop" }

// screen takes a picture of the screen.
func (d *desktop) screen() image.Image {
	d.u.t.Helper()
	content, err := d.u.command("import", "-silent", "-window", "root", "-depth", "8", "png:-").Output()
	if err != nil {
		d.u.t.Fatal("taking a picture of the screen:", err)
	}
	picture, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		d.u.t.Fatal("reading the picture of the screen:", err)
	}
	return picture
}

// keep keeps a picture of the screen, under the next number.
func (d *desktop) keep(name string) {
	d.u.t.Helper()
	d.pictures++
	file, err := os.Create(filepath.Join(d.u.out, fmt.Sprintf("%d-%s.png", d.pictures, name)))
	if err != nil {
		d.u.t.Fatal(err)
	}
	err = png.Encode(file, d.screen())
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		d.u.t.Fatal("keeping a picture:", err)
	}
}

// find looks for a colour in a part of the screen.
func (d *desktop) find(want color.NRGBA, in box) (x, y int, found bool) {
	d.u.t.Helper()
	picture := d.screen()
	for y := in.y; y < in.y+in.h; y++ {
		for x := in.x; x < in.x+in.w; x++ {
			if color.NRGBAModel.Convert(picture.At(x, y)) == want {
				return x, y, true
			}
		}
	}
	return 0, 0, false
}

// see waits until a colour is in a part of the screen.
func (d *desktop) see(what string, want color.NRGBA, in func() box) (x, y int) {
	d.u.t.Helper()
	d.u.eventually(what, func() bool {
		var found bool
		x, y, found = d.find(want, in())
		return found
	})
	return x, y
}

// windows are the visible ones of a class.
func (d *desktop) windows(class string) []box {
	d.u.t.Helper()
	ids, err := d.u.command("xdotool", "search", "--onlyvisible", "--class", class).Output()
	if err != nil {
		return nil // there is none
	}
	var found []box
	for id := range strings.FieldsSeq(string(ids)) {
		text, err := d.u.command("xdotool", "getwindowgeometry", "--shell", id).Output()
		if err != nil {
			continue // closed meanwhile
		}
		var b box
		for line := range strings.Lines(string(text)) {
			_, _ = fmt.Sscanf(line, "X=%d", &b.x)
			_, _ = fmt.Sscanf(line, "Y=%d", &b.y)
			_, _ = fmt.Sscanf(line, "WIDTH=%d", &b.w)
			_, _ = fmt.Sscanf(line, "HEIGHT=%d", &b.h)
		}
		found = append(found, b)
	}
	return found
}

// The panel draws its tray in a process of its own, to which the menus belong.
const trayClass = "wrapper-2.0"

// panelHeight is more than that of the panel and less than that of a menu.
const panelHeight = 40

// tray is the part of the panel with the icons; nothing before there is one.
func (d *desktop) tray() box {
	for _, b := range d.windows(trayClass) {
		if b.h < panelHeight && b.y < panelHeight && b.w > 12 {
			return b
		}
	}
	return box{}
}

// menus waits until n menus are open and returns them, the newest last: each opens
// beside the one before.
func (d *desktop) menus(n int) []box {
	d.u.t.Helper()
	var menus []box
	d.u.eventually(fmt.Sprintf("%d menus are open", n), func() bool {
		menus = nil
		for _, b := range d.windows(trayClass) {
			if b.h >= panelHeight {
				menus = append(menus, b)
			}
		}
		return len(menus) == n
	})
	if n == 2 && menus[1].x < menus[0].x {
		menus[0], menus[1] = menus[1], menus[0]
	}
	return menus
}

// point moves the mouse.
func (d *desktop) point(x, y int) {
	d.u.t.Helper()
	d.u.must("xdotool", d.u.command("xdotool", "mousemove", fmt.Sprint(x), fmt.Sprint(y)))
}

// click moves the mouse and presses its left button.
func (d *desktop) click(x, y int) {
	d.u.t.Helper()
	d.point(x, y)
	d.u.must("xdotool", d.u.command("xdotool", "click", "1"))
}

// sent waits until somebody sent a notification with that title.
func (d *desktop) sent(title string) {
	d.u.t.Helper()
	d.u.eventually("a notification: "+title, func() bool {
		sent, err := os.ReadFile(d.u.path("desktop/log/notifications"))
		return err == nil && strings.Contains(string(sent), fmt.Sprintf("string %q", title))
	})
}

// notified waits until somebody sent a notification with that title and one is on
// the screen.
func (d *desktop) notified(title string) {
	d.u.t.Helper()
	d.sent(title)
	// That is the background of testdata/desktop.sh's notifications.
	d.see("the notification on the screen", color.NRGBA{R: 0x1f, G: 0x2a, B: 0x44, A: 0xff}, func() box {
		if shown := d.windows("Dunst"); len(shown) == 1 {
			return shown[0]
		}
		return box{}
	})
}
