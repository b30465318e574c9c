//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"mcp-funnel/core"
	"mcp-funnel/core/status"
	"mcp-funnel/tray/traytest"
)

// desk is a sandbox with a bus, a panel and a notification server.
type desk struct {
	*sandbox
	bus     *traytest.Bus
	conn    *dbus.Conn
	notices *traytest.Notifications
}

func newDesk(t *testing.T, text string) *desk {
	t.Helper()
	d := &desk{sandbox: newSandbox(t, text), bus: traytest.StartBus(t)}
	d.conn = d.bus.Connect(t)
	if _, err := traytest.NewWatcher(d.bus.Connect(t)); err != nil {
		t.Fatal(err)
	}
	var err error
	if d.notices, err = traytest.NewNotifications(d.bus.Connect(t), "actions"); err != nil {
		t.Fatal(err)
	}
	// Without the folder in which testscript has this very program.
	d.environ = append(d.environ, "DBUS_SESSION_BUS_ADDRESS="+d.bus.Address, "PATH=/usr/bin:/bin", traytest.RaceEnv)
	return d
}

// ended waits for the end of an app with an icon, and checks that it ended well.
func (d *desk) ended(a *started) {
	d.t.Helper()
	<-a.done
	if code := a.cmd.ProcessState.ExitCode(); code != 0 {
		d.t.Errorf("exit code %d: %s", code, a.stderr)
	}
}

// item waits for the icon of the process pid.
func (d *desk) item(pid int) *traytest.Item {
	d.t.Helper()
	item, err := traytest.WaitItem(d.conn, pid, patience)
	if err != nil {
		d.t.Fatal(err)
	}
	return item
}

// open opens the menu until the entry at path is there.
func (d *desk) open(item *traytest.Item, path ...string) *traytest.Entry {
	d.t.Helper()
	var entry *traytest.Entry
	var menu *traytest.Entry
	err := traytest.Poll(patience, func() (err error) {
		if err := item.Open(); err != nil {
			return err
		}
		if menu, err = item.Menu(); err != nil {
			return err
		}
		if entry = menu.Find(path...); entry == nil {
			return fmt.Errorf("no entry %q in\n%s", path, menu)
		}
		return nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return entry
}

func (d *desk) click(item *traytest.Item, path ...string) {
	d.t.Helper()
	if err := item.Click(path...); err != nil {
		d.t.Fatal(err)
	}
}

// quiet0 is oneServer whose faults are told at once.
var quiet0 = strings.Replace(oneServer, "{", `{"notifications": {"quietAfterStartMs": 0, "afterMs": 0},`, 1)

func TestTrayShowsWhatTheAppKnows(t *testing.T) {
	d := newDesk(t, quiet0)
	a := d.start("tray")
	d.server("demo", connected)
	item := d.item(a.cmd.Process.Pid)
	c := d.client()
	d.must(c, "demo__echo", `{"message":"x"}`)
	d.eventuallyTrue("uptime, memory and tools are in the menu", func() bool {
		return strings.Contains(d.open(item, "demo: connected", "up ").Label, " MiB, 6 tools")
	})
	d.eventuallyTrue("the client is in the menu", func() bool {
		return strings.HasSuffix(d.open(item, "Sessions: 1", "mcp-funnel-demo").Label, ", 1 call")
	})
	if r := d.report(func(core.Report) bool { return true }); r.Mode != modeTray || !r.Tray.Shown {
		t.Errorf("mode %s, tray %+v", r.Mode, r.Tray)
	}
	d.click(item, "Quit")
	d.ended(a)
}

func TestTraySettingsAreKept(t *testing.T) {
	d := newDesk(t, quiet0)
	a := d.start("tray")
	pid := d.server("demo", connected).PID
	item := d.item(a.cmd.Process.Pid)
	tick := func(on bool, name string) {
		t.Helper()
		err := traytest.Poll(patience, func() error {
			menu, err := item.Menu()
			if err != nil {
				return err
			}
			if entry := menu.Find(name); entry == nil || entry.On != on {
				return fmt.Errorf("the tick of %s is not %v:\n%s", name, on, menu)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(d.dir, "config", "autostart", "mcp-funnel.desktop")
	tick(false, "Start at login")
	d.click(item, "Start at login")
	tick(true, "Start at login")
	if out, _, _ := d.run("autostart", "status"); out != "on "+file+"\n" {
		t.Errorf("status says %q", out)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "Exec=\""+d.program+"\" \"tray\"\n") {
		t.Errorf("the entry is %s, %v", text, err)
	}
	if _, stderr, code := d.run("autostart", "off"); code != 0 {
		t.Error(stderr)
	}
	if err := traytest.Poll(patience, func() error { // read back when the menu opens
		if err := item.Open(); err != nil {
			return err
		}
		menu, err := item.Menu()
		if err == nil && menu.Find("Start at login").On {
			err = errors.New("the tick is still there")
		}
		return err
	}); err != nil {
		t.Error(err)
	}

	d.click(item, "Notifications")
	tick(false, "Notifications")
	d.touch("down")
	d.kill(pid)
	d.server("demo", func(s status.Server) bool { return s.State == status.SlowProbe })
	<-time.After(3 * time.Second) // when a notice would have come
	if n := len(d.notices.Shown()); n != 0 {
		t.Errorf("%d notices without the tick", n)
	}
	d.remove("down")
	d.server("demo", connected)
	d.click(item, "Quit")
	d.ended(a)
	second := d.start("tray")
	item = d.item(second.cmd.Process.Pid)
	tick(false, "Notifications")
	d.click(item, "Notifications")
	tick(true, "Notifications")
	pid = d.server("demo", connected).PID
	d.touch("down")
	d.kill(pid)
	select {
	case n := <-d.notices.Shown():
		if !strings.HasPrefix(n.Summary, "demo") || len(n.Actions) != 4 {
			t.Errorf("notice %+v", n)
		}
	case <-time.After(patience):
		t.Error("no notice with the tick")
	}
}

// The program was updated under the running app: the menu offers the new one, which
// takes over.
func TestRestartToUpdate(t *testing.T) {
	d := newDesk(t, quiet0)
	a := d.start("tray")
	d.server("demo", connected)
	item := d.item(a.cmd.Process.Pid)
	c := d.client()
	d.must(c, "demo__echo", `{"message":"x"}`)
	d.open(item, "demo: connected", "up ") // it was measured
	menu, err := item.Menu()
	if err != nil {
		t.Fatal(err)
	}
	if menu.Find("Restart to update") != nil {
		t.Errorf("offered without an update:\n%s", menu)
	}
	// As package managers do: a new file takes the place of the old one.
	content, err := os.ReadFile(d.program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.program+".new", content, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(d.program+".new", d.program); err != nil {
		t.Fatal(err)
	}
	d.open(item, "Restart to update")
	d.click(item, "Restart to update")
	d.ended(a)
	r := d.report(func(r core.Report) bool { return r.PID != a.cmd.Process.Pid })
	defer func() { _ = syscall.Kill(r.PID, syscall.SIGTERM) }() // our own child's child
	if session, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.PID)); err != nil || !strings.Contains(string(session), fmt.Sprintf(" %d %d ", r.PID, r.PID)) {
		t.Errorf("the new one has no session of its own: %s, %v", session, err)
	}
	item = d.item(r.PID)
	d.open(item, "demo: connected")
	if got := d.must(c, "demo__echo", `{"message":"again"}`); got != "again" {
		t.Errorf("after the update: %q", got)
	}
}

func TestMovedProgramIsStartedAtLogin(t *testing.T) {
	d := newDesk(t, "")
	if _, stderr, code := d.run("autostart", "on"); code != 0 {
		t.Fatal(stderr)
	}
	moved := filepath.Join(t.TempDir(), "my apps", "mcp-funnel")
	if err := os.MkdirAll(filepath.Dir(moved), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(d.program, moved); err != nil {
		t.Fatal(err)
	}
	d.program = moved
	d.start("tray")
	text, err := os.ReadFile(filepath.Join(d.dir, "config", "autostart", "mcp-funnel.desktop"))
	if err != nil || !strings.Contains(string(text), "Exec=\""+moved+"\" \"tray\"\n") {
		t.Errorf("the entry is %s, %v", text, err)
	}
}

// C112, C113: without a panel it serves, says what is missing, and shows the icon
// when a panel comes.
func TestC113_StatusSaysWhatIsMissing(t *testing.T) {
	s := newSandbox(t, oneServer)
	bus := traytest.StartBus(t)
	s.environ = append(s.environ, "DBUS_SESSION_BUS_ADDRESS="+bus.Address, traytest.RaceEnv)
	s.start("tray")
	s.server("demo", connected)
	r := s.report(func(r core.Report) bool { return r.Tray.Reason != "" })
	if r.Mode != modeTray || r.Tray.Shown || !strings.Contains(r.Tray.Reason, "AppIndicator") {
		t.Errorf("mode %s, tray %+v", r.Mode, r.Tray)
	}
	out, _, _ := s.run("status")
	if !strings.Contains(out, "Tray:    not shown: no panel shows tray icons; on GNOME install the AppIndicator extension") {
		t.Errorf("status says %s", out)
	}
	if _, err := traytest.NewWatcher(bus.Connect(t)); err != nil {
		t.Fatal(err)
	}
	s.report(func(r core.Report) bool { return r.Tray.Shown })
	bus.Stop()
	r = s.report(func(r core.Report) bool { return r.Mode == modeHeadless })
	if !strings.Contains(r.Tray.Reason, "start mcp-funnel again in your desktop session") {
		t.Errorf("tray %+v", r.Tray)
	}
	if tools, err := s.client().tools(t.Context()); err != nil || len(tools) != 6 {
		t.Errorf("it does not serve: %v, %v", tools, err)
	}
}

func TestOwnProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("1"), 0o700); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	own := ownProgram{path: path, info: info}
	is := func(what string, want bool) {
		t.Helper()
		if got := own.updated(); got != want {
			t.Errorf("%s: updated %v", what, got)
		}
	}
	is("as it was", false)
	later := info.ModTime().Add(time.Second)
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	is("written over", true)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	is("removed", false)
	if err := os.WriteFile(path, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	is("being written", false)
	if (ownProgram{}).updated() || findOwnProgram().info == nil {
		t.Error("the running program is not found, or one that was not found was updated")
	}
}

// A program that does not start is said to the user.
func TestRestartThatFails(t *testing.T) {
	for content, want := range map[string]string{"#!/bin/sh\nexit 1\n": "exit status 1", "#!/bin/sh\nexit 0\n": "without taking over", "": "starting"} {
		path := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
		a := &app{program: ownProgram{path: path}, home: t.TempDir()}
		var failed *exec.Error
		if err := a.restart(t.Context()); err == nil || !strings.Contains(err.Error(), want) && !errors.As(err, &failed) {
			t.Errorf("%q: %v, want %q", content, err, want)
		}
	}
}
