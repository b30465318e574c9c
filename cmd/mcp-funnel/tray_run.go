package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"mcp-funnel/core"
	"mcp-funnel/core/status"
	"mcp-funnel/tray"
	"mcp-funnel/tray/autostart"
)

// showTray shows the icon on this goroutine until ctx ends or the desktop goes.
func (a *app) showTray(ctx context.Context) {
	if err := tray.New(a.trayOptions()).Run(ctx); err == nil {
		return // ctx has ended
	}
	// The desktop is gone, which the tray has logged and noted on the board.
	headless := modeHeadless
	a.mode.Store(&headless)
	a.funnel.Board().Update(func(*status.Snapshot) {}) // wakes who looks at the mode
	if err := a.instance.SetMode(modeHeadless); err != nil {
		a.log.Error("noting the new mode failed", "err", err)
	}
}

func (a *app) trayOptions() tray.Options {
	o := tray.Options{
		Board: a.funnel.Board(), Events: a.funnel.Events(), Controls: a.funnel, Version: buildVersion(), Log: a.log,
		Policy: func() tray.Policy {
			n := a.funnel.Notifications()
			return tray.Policy{Enabled: n.Enabled, After: n.After, QuietAfterStart: n.QuietAfterStart}
		},
		Notifications: notificationsSwitch{a.funnel},
		Details:       a.details,
		LogPath:       func(server string) string { return core.ServerLogPath(core.StateDir(), server) },
		ConfigPath:    a.options.config,
		Updated:       a.program.updated,
		Restart:       a.restart,
	}
	if entry, err := openAutostart(); err != nil {
		a.log.Warn("the menu does not offer to start at login", "err", err)
	} else {
		o.Autostart = &autostartSwitch{entry: entry, app: a}
	}
	return o
}

// details measures what the menu shows when it opens.
func (a *app) details(ctx context.Context) tray.Details {
	report := a.funnel.Report(ctx)
	d := tray.Details{Sessions: report.Sessions, Memory: make(map[string]int64, len(report.Servers))}
	for _, s := range report.Servers {
		d.Memory[s.Name] = s.RSSBytes
	}
	return d
}

// notificationsSwitch is the tick that state.json keeps.
type notificationsSwitch struct{ funnel *core.Funnel }

func (n notificationsSwitch) On() bool          { return n.funnel.NotificationsOn() }
func (n notificationsSwitch) Set(on bool) error { return n.funnel.SetNotifications(on) }

// autostartSwitch is the tick for the start at login.
type autostartSwitch struct {
	entry *autostart.Entry
	app   *app
}

// On reads the file anew: a desktop's settings may have changed it.
func (s *autostartSwitch) On() bool {
	now, err := s.entry.Status()
	if err != nil {
		s.app.log.Debug("reading whether the app is started at login failed", "err", err)
	}
	return now.On
}

func (s *autostartSwitch) Set(on bool) error {
	if on {
		return s.entry.Enable()
	}
	return s.entry.Disable()
}

// refreshAutostart mends an entry of ours whose program was moved.
func (a *app) refreshAutostart() {
	if !a.options.tray {
		return // what is started at login is the tray
	}
	entry, err := openAutostart()
	refreshed := false
	if err == nil {
		refreshed, err = entry.Refresh()
	}
	switch {
	case err != nil:
		a.log.Warn("mending the entry for the start at login failed", "err", err)
	case refreshed:
		a.log.Info("the entry for the start at login had an old path, and has the present one now")
	}
}

// ownProgram is the program's file as it was at the start.
type ownProgram struct {
	path string
	info os.FileInfo // nil: it could not be found
}

func findOwnProgram() ownProgram {
	path, err := autostart.Program(os.Getenv)
	if err != nil {
		return ownProgram{}
	}
	info, err := os.Stat(path)
	if err != nil {
		return ownProgram{}
	}
	return ownProgram{path: path, info: info}
}

// updated reports whether another file has taken the place of the program's, as an
// update does.
func (o ownProgram) updated() bool {
	if o.info == nil {
		return false
	}
	now, err := os.Stat(o.path)
	if err != nil || !now.Mode().IsRegular() || now.Size() == 0 {
		return false // it was removed, or is being written
	}
	return !os.SameFile(o.info, now) || !now.ModTime().Equal(o.info.ModTime())
}

// restartGrace is how long a new program may take to end this one, or to say why it
// does not.
const restartGrace = 30 * time.Second

// restart starts the program that is in place now. It takes over from this one,
// which is told by its socket.
func (a *app) restart(ctx context.Context) error {
	args := []string{"tray", "--replace"}
	if a.options.ownConfig {
		args = append(args, "--config", a.options.config)
	}
	if a.options.byBridge {
		args = append(args, "--by-bridge")
	}
	cmd := exec.Command(a.program.path, args...)
	cmd.Dir = a.home
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", a.program.path, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	timer := time.NewTimer(restartGrace)
	defer timer.Stop()
	select {
	case err := <-ended:
		if err == nil {
			err = fmt.Errorf("%s ended without taking over; see its log", a.program.path)
		}
		return fmt.Errorf("starting the new program: %w", err)
	case <-timer.C:
		return fmt.Errorf("%s does not take over; see its log", a.program.path)
	case <-ctx.Done():
		return nil // it does
	}
}
