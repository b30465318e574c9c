//go:build linux

package tray

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-funnel/assets"
	"mcp-funnel/core/status"
	"mcp-funnel/tray/traytest"
)

// wait polls until f returns nil.
func wait(t *testing.T, f func() error) {
	t.Helper()
	if err := traytest.Poll(10*time.Second, f); err != nil {
		t.Fatal(err)
	}
}

// openMenu opens the menu, again and again: the watch may not stand yet.
func openMenu(t *testing.T, a *app, item *traytest.Item) {
	t.Helper()
	before := a.count("measured")
	wait(t, func() error {
		if err := item.Open(); err != nil {
			return err
		}
		if a.count("measured") == before {
			return fmt.Errorf("not measured")
		}
		return nil
	})
}

// writeProgram writes a shell script.
func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// zombies are children of a process that ended and were not waited for.
func zombies(t *testing.T, pid int) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if strings.HasPrefix(rest, fmt.Sprintf("Z %d ", pid)) {
			found = append(found, string(text))
		}
	}
	return found
}

func TestEveryEntryOfTheMenuIsObeyed(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	opened := filepath.Join(a.home, "opened")
	writeProgram(t, filepath.Join(a.home, "xdg-open"), `echo "$1" >>`+opened+"\n")
	item := d.item(t, a)
	a.update(status.Snapshot{
		Servers: []status.Server{up("files", 3), up("mute", 1)},
		Sessions: []status.Session{{
			ID: "1", Client: status.Client{Name: "claude_code"}, CWD: "/home/u/src", Calls: 7,
		}},
	})
	waitRow(t, item, "mute: connected")
	openMenu(t, a, item)
	waitMenu(t, item, `(2 of 2 servers connected)
---
files: connected, 3 tools
  Reconnect now
  [x] Enabled
  Show log
  (2.0 MiB, 3 tools)
mute: connected, 1 tool
  Reconnect now
  [x] Enabled
  Show log
  (1 tool)
---
Reconnect all
Sessions: 1
  (claude__code, /home/u/src, 7 calls)
Edit config…
[ ] Start at login
[x] Notifications
---
(MCP Funnel 1.2__3)
Quit
`)
	log := filepath.Join(a.home, "files.log")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	click := func(path ...string) {
		t.Helper()
		if err := item.Click(path...); err != nil {
			t.Fatal(err)
		}
	}
	openedAre := func(want ...string) {
		t.Helper()
		wait(t, func() error {
			text, err := os.ReadFile(opened)
			if got := strings.Fields(string(text)); !slices.Equal(got, want) {
				return errors.Join(fmt.Errorf("opened %q, want %q", got, want), err)
			}
			return nil
		})
	}
	click("files", "Show log")
	openedAre(log)
	config := filepath.Join(a.home, "config", "config.json")
	click("Edit config…")
	openedAre(log, config)
	if text, err := os.ReadFile(config); err != nil || string(text) != emptyConfig {
		t.Errorf("the new configuration is %q, %v", text, err)
	}
	click("mute", "Show log")
	if n := d.next(t); n.Summary != "Showing the log of mute failed" || !strings.Contains(n.Body, "mute.log") {
		t.Errorf("%q: %q", n.Summary, n.Body)
	}
	click("Start at login")
	a.wait("autostart true", 1)
	waitTick(t, item, true, "Start at login")
	click("Start at login")
	a.wait("autostart false", 1)
	waitTick(t, item, false, "Start at login")
	click("Reconnect all")
	a.wait("reconnect all", 1)

	if err := os.WriteFile(filepath.Join(a.home, "updated"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-time.After(measureEvery)
	openMenu(t, a, item)
	waitRow(t, item, "Restart to update")
	click("Restart to update")
	a.wait("restart", 1)
	if n := d.next(t); n.Summary != "Restarting failed" || n.Body != "it does not start" {
		t.Errorf("%q: %q", n.Summary, n.Body)
	}
	if left := zombies(t, a.cmd.Process.Pid); len(left) > 0 {
		t.Errorf("zombies: %q", left)
	}
	click("Quit")
	a.wait("quit", 1)
}

func waitTick(t *testing.T, item *traytest.Item, on bool, path ...string) {
	t.Helper()
	wait(t, func() error {
		menu, err := item.Menu()
		if err != nil {
			return err
		}
		if entry := menu.Find(path...); entry == nil || !entry.Checkable || entry.On != on {
			return fmt.Errorf("the tick of %q is not %v:\n%s", path, on, menu)
		}
		return nil
	})
}

// A desktop without a program for the file, and one without xdg-open.
func TestFilesThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	item := d.item(t, a)
	if err := item.Click("Edit config…"); err != nil {
		t.Fatal(err)
	}
	if n := d.next(t); n.Summary != "Opening the configuration failed" || !strings.Contains(n.Body, "xdg-open") {
		t.Errorf("%q: %q", n.Summary, n.Body)
	}
	writeProgram(t, filepath.Join(a.home, "xdg-open"), "exit 3\n")
	if err := item.Click("Edit config…"); err != nil {
		t.Fatal(err)
	}
	if n := d.next(t); n.Summary != "Opening the configuration failed" || !strings.Contains(n.Body, "has no program for it") {
		t.Errorf("%q: %q", n.Summary, n.Body)
	}
	a.finish()
	if n := strings.Count(a.stderr.String(), "menu command failed"); n != 2 {
		t.Errorf("%d lines in the log, want 2:\n%s", n, a.stderr.String())
	}
}

// The program that shows a file stays, and holds up neither the menu nor the end.
func TestOpenedProgramOutlivesTheTray(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	pidFile, ended := filepath.Join(a.home, "pid"), filepath.Join(a.home, "ended")
	writeProgram(t, filepath.Join(a.home, "xdg-open"), `echo $$ >`+pidFile+`; exec 3<>`+filepath.Join(a.home, "fifo")+`; read x <&3; echo "$x" >`+ended+"\n")
	fifo := filepath.Join(a.home, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	item := d.item(t, a)
	if err := item.Click("Edit config…"); err != nil {
		t.Fatal(err)
	}
	wait(t, func() error { _, err := os.Stat(pidFile); return err })
	if err := item.Click("Quit"); err != nil {
		t.Fatal(err)
	}
	a.wait("quit", 1)
	a.leftBehind = true // the goroutine that waits for the program
	a.finish()
	if err := os.WriteFile(fifo, []byte("alive\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wait(t, func() error {
		if text, _ := os.ReadFile(ended); string(text) != "alive\n" {
			return fmt.Errorf("the program said %q", text)
		}
		return nil
	})
}

func TestEveryStateHasItsIcons(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	item := d.item(t, a)
	var icons assets.Icons
	for _, state := range status.States() {
		a.set(status.Server{Name: "x", State: state, Enabled: state != status.Disabled})
		var row *traytest.Entry
		wait(t, func() error {
			menu, err := item.Menu()
			if err != nil {
				return err
			}
			if row = menu.Find("x: " + state.Words()); row == nil {
				return fmt.Errorf("no row for %s in\n%s", state, menu)
			}
			return nil
		})
		if want := icons.MenuPNG(shape(state), 32); !slices.Equal(row.Icon, want) {
			t.Errorf("%s: the row has another icon than the %s", state, shape(state))
		}
		wait(t, func() error {
			got, err := item.Icon()
			if err != nil {
				return err
			}
			if want := assets.Image(shape(state), 48); !slices.Equal(opaque(got.Pix), opaque(want.Pix)) {
				return fmt.Errorf("%s: the tray has another icon than the %s", state, shape(state))
			}
			return nil
		})
	}
}

// opaque leaves the colours out that cannot be seen.
func opaque(pix []byte) []byte {
	pix = slices.Clone(pix)
	for i := 0; i < len(pix); i += 4 {
		if pix[i+3] == 0 {
			pix[i], pix[i+1], pix[i+2] = 0, 0, 0
		}
	}
	return pix
}
