//go:build linux

package tray

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"mcp-funnel/core/status"
)

// C117: ten servers fail within a second.
func TestC117_TenFaultsAreOneNotification(t *testing.T) {
	t.Parallel()
	d := newDesktop(t, "actions")
	a := startApp(t, d.address())
	item := d.item(t, a)
	var servers []status.Server
	for i := range 10 {
		servers = append(servers, up(fmt.Sprint("s", i), 1))
	}
	for i := range servers {
		servers[i].State = status.SlowProbe
		a.set(servers...)
	}
	fault := d.next(t)
	if fault.Summary != "10 servers: slow probe" || fault.Body != "s0, s1, s2 and 7 more." || len(fault.Actions) > 0 {
		t.Errorf("fault: %+v", fault)
	}
	for i := range servers {
		servers[i].State = status.Connected
		a.set(servers...)
	}
	recovery := d.next(t)
	if recovery.Summary != "10 servers recovered" || recovery.Replaces != fault.ID {
		t.Errorf("recovery: %+v, want it in place of %d", recovery, fault.ID)
	}
	waitRow(t, item, "s9: connected")
	a.finish()
	if n := a.count("event notification.sent"); n != 2 || len(d.notices.Shown()) > 0 {
		t.Errorf("%d notifications", n)
	}
}

func TestButtonsOfANotification(t *testing.T) {
	t.Parallel()
	d := newDesktop(t, "actions", "body-markup")
	a := startApp(t, d.address())
	opened := filepath.Join(a.home, "opened")
	writeProgram(t, filepath.Join(a.home, "xdg-open"), `echo "$1" >>`+opened+"\n")
	log := filepath.Join(a.home, "github.log")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.item(t, a)
	a.set(probing("github", "gone"))
	n := d.next(t)
	if want := []string{"reconnect", "Reconnect now", "log", "Show log"}; !slices.Equal(n.Actions, want) {
		t.Errorf("actions %q, want %q", n.Actions, want)
	}
	press := func(id uint32, action string) {
		t.Helper()
		if err := d.notices.Invoke(id, action); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, func() error { // the number is noted when the server has answered
		press(n.ID, "reconnect")
		if a.count("reconnect github") == 0 {
			return fmt.Errorf("not reconnected")
		}
		return nil
	})
	press(n.ID+1, "log")    // another program's
	press(n.ID, "whatever") // no button of ours
	press(n.ID, "log")
	wait(t, func() error {
		if text, err := os.ReadFile(opened); string(text) != log+"\n" {
			return errors.Join(fmt.Errorf("opened %q", text), err)
		}
		return nil
	})
	a.set(up("github", 1))
	if recovery := d.next(t); len(recovery.Actions) > 0 || recovery.Replaces != n.ID {
		t.Errorf("recovery: %+v", recovery)
	}
}

// What is told of a server that is switched off is not true any more.
func TestNotificationIsClosed(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	item := d.item(t, a)
	a.set(probing("github", "gone"))
	n := d.next(t)
	if len(n.Actions) > 0 {
		t.Errorf("buttons %q on a server that has none", n.Actions)
	}
	a.wait("event notification.sent", 1)
	if err := item.Click("github", "Enabled"); err != nil {
		t.Fatal(err)
	}
	d.closed(t, n.ID)
}

func TestNotificationsTick(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	item := d.item(t, a)
	if err := item.Click("Notifications"); err != nil {
		t.Fatal(err)
	}
	a.wait("notifications false", 1)
	waitTick(t, item, false, "Notifications")
	a.set(probing("github", "gone"))
	waitRow(t, item, "github: slow probe")
	<-time.After(gatherFor + time.Second) // when it would have come
	if len(d.notices.Shown()) > 0 {
		t.Error("a notification without the tick")
	}
	if err := item.Click("Notifications"); err != nil {
		t.Fatal(err)
	}
	a.wait("notifications true", 1)
	if n := d.next(t); n.Summary != "github: slow probe" {
		t.Errorf("%+v", n)
	}
}

// closed fails the test unless the notification of that number is closed.
func (d *desktop) closed(t *testing.T, want uint32) {
	t.Helper()
	select {
	case id := <-d.notices.Closed():
		if id != want {
			t.Errorf("closed %d, want %d", id, want)
		}
	case <-time.After(10 * time.Second):
		t.Error("not closed")
	}
}

// What is on the screen when the user wants no notifications would stay there, true or
// not.
func TestNotificationsTickClearsTheScreen(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	a := startApp(t, d.address())
	item := d.item(t, a)
	a.set(probing("github", "gone"))
	n := d.next(t)
	a.wait("event notification.sent", 1)
	if err := item.Click("Notifications"); err != nil {
		t.Fatal(err)
	}
	d.closed(t, n.ID)
	a.set(up("github", 1))
	waitRow(t, item, "github: connected")
	a.finish()
	if len(d.notices.Shown()) > 0 || len(d.notices.Closed()) > 0 {
		t.Error("more was shown or closed")
	}
}

// Nobody would answer to their buttons, or close them when they are not true any more.
func TestNotificationsDoNotOutliveTheApp(t *testing.T) {
	t.Parallel()
	d := newDesktop(t, "actions")
	a := startApp(t, d.address())
	d.item(t, a)
	a.set(probing("github", "gone"))
	n := d.next(t)
	a.wait("event notification.sent", 1)
	a.finish()
	d.closed(t, n.ID)
}
