//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"

	"mcp-funnel/core/status"
)

// appFaults are about the app itself and the machine.
func appFaults() []fault {
	return []fault{
		{name: "app/killed", did: "kill -9 of the app over a deaf server and one whose leader then dies; a new app", play: appKilled},
		{name: "app/asleep", did: "the machine slept; five servers in slow probe are back", play: asleep},
		{name: "app/clock", did: "the clock is set a day forward or back", play: clock},
	}
}

// clock cannot be tried from outside.
func clock(context.Context, *trial) error {
	return skip("setting the clock would change the machine; tests with clocks of their own cover it: core/wakeup, %s",
		"TestClockSetForwardCountsOnce and TestClockSetBackwardDoesNothingAndHidesNoSleep")
}

func appKilled(ctx context.Context, t *trial) error {
	all := servers{"deaf": t.own("-mode", modeDeaf), "headless": t.own("-mode", modeDeafParent), "plain": t.own()}
	if err := t.startConnected(ctx, all); err != nil {
		return err
	}
	leader, err := t.server(ctx, "headless")
	if err != nil {
		return err
	}
	children := t.children(leader.PID)
	if err := t.kill(); err != nil {
		return err
	}
	if alive(leader.PID) { // it may have ended with its input
		if err := signal(leader.PID, syscall.SIGKILL); err != nil {
			return err
		}
	}
	t.settled(ctx, time.Second, func() []process { return t.only(leader.PID) })
	left := marked(t.dir)
	t.check(len(left) == 2 && len(children) == 1, "%v are left of the first app, want the deaf server and a child without its leader", left)
	begun := time.Now()
	if err := t.startApp(ctx); err != nil {
		return err
	}
	t.noticedAs = "the new app answers after " + short(time.Since(begun))
	for name := range all {
		if _, err := t.in(ctx, name, status.Connected); err != nil {
			return err
		}
	}
	t.usable = samples{time.Since(begun)}
	for _, p := range left {
		t.check(!alive(p.pid), "of the first app, beside its successor: %s", p)
	}
	t.within("all servers", t.usable[0], termGrace+2*time.Second)
	t.remark("measured from the start of the new app on")
	return nil
}

// only is the process with that pid, if it lives.
func (t *trial) only(pid int) []process {
	return slices.DeleteFunc(marked(t.dir), func(p process) bool { return p.pid != pid })
}

// systemBus is a system bus of the sandbox's own, for a login manager of ours.
const systemBus = `<busconfig><type>system</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow send_type="signal"/>
<allow send_requested_reply="true" send_type="method_return"/><allow send_requested_reply="true" send_type="error"/>
<allow receive_type="method_call"/><allow receive_type="method_return"/><allow receive_type="error"/><allow receive_type="signal"/>
</policy></busconfig>`

// loginManager is a stand-in for systemd-logind.
type loginManager struct{ conn *dbus.Conn }

// newLoginManager starts a bus and the manager on it; apps started from now on find
// them.
func (t *trial) newLoginManager(ctx context.Context) (*loginManager, error) {
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		return nil, skip("dbus-daemon is missing (Debian package of that name)")
	}
	socket, config := t.path("bus"), t.path("bus.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, systemBus, socket), 0o600); err != nil {
		return nil, fmt.Errorf("writing the bus's config: %w", err)
	}
	bus := exec.Command("dbus-daemon", "--config-file="+config, "--nofork", "--nopidfile")
	said := &lockedBuffer{}
	bus.Stderr = said
	if err := bus.Start(); err != nil {
		return nil, fmt.Errorf("starting dbus-daemon: %w", err)
	}
	t.cleanup(func() {
		_ = bus.Process.Kill()
		_ = bus.Wait() // it was killed
	})
	address := "unix:path=" + socket
	t.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		conn, err := dbus.Connect(address)
		if err == nil {
			t.cleanup(func() { _ = conn.Close() })
			_, err = conn.RequestName("org.freedesktop.login1", dbus.NameFlagDoNotQueue)
			return &loginManager{conn}, err
		}
		if pauseErr := pause(ctx, 20*time.Millisecond); pauseErr != nil {
			return nil, errors.Join(err, fmt.Errorf("dbus-daemon said: %s", said))
		}
	}
}

// heard waits until somebody else is on the bus and had a moment to listen. Where
// nobody comes the sleep is not noticed, which is told by what follows.
func (m *loginManager) heard(ctx context.Context) error {
	const atMost, moment = 2 * time.Second, 200 * time.Millisecond
	for deadline := time.Now().Add(atMost); time.Now().Before(deadline); {
		var names []string
		if err := m.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.ListNames", 0).Store(&names); err != nil {
			return fmt.Errorf("asking the bus who is there: %w", err)
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, ":") })
		if len(names) > 1 {
			break
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return pause(ctx, moment)
}

// sleep tells of falling asleep, or of waking up.
func (m *loginManager) sleep(falling bool) error {
	return m.conn.Emit("/org/freedesktop/login1", "org.freedesktop.login1.Manager.PrepareForSleep", falling)
}

// Limits for servers after a sleep.
const (
	sleepers = 5
	// wakeLimit is by when the first of them is connected, and allLimit all.
	wakeLimit = 2 * time.Second
	allLimit  = 10 * time.Second
)

func asleep(ctx context.Context, t *trial) error {
	manager, err := t.newLoginManager(ctx)
	if err != nil {
		return err
	}
	all, peers := servers{}, []*peer{}
	for i := range sleepers {
		p, err := t.peer()
		if err != nil {
			return err
		}
		p.stop()
		peers = append(peers, p)
		all[fmt.Sprint("server", i)] = at(p.url())
	}
	if err := t.start(ctx, all); err != nil {
		return err
	}
	for name := range all {
		if _, err := t.in(ctx, name, status.SlowProbe); err != nil {
			return err
		}
	}
	for _, p := range peers {
		if err := p.start(); err != nil {
			return err
		}
	}
	if err := manager.heard(ctx); err != nil {
		return err
	}
	mark := t.events.mark()
	if err := manager.sleep(true); err != nil {
		return err
	}
	begun := time.Now()
	if err := manager.sleep(false); err != nil {
		return err
	}
	return t.awake(ctx, all, peers, mark, begun)
}

// awake checks that all come back, and not all at the same moment.
func (t *trial) awake(ctx context.Context, all servers, peers []*peer, mark int, begun time.Time) error {
	limit := time.Duration(float64(allLimit) * t.slack)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not in %v after the machine woke up", limit))
	defer cancel()
	for name := range all {
		up, err := t.events.await(ctx, mark, status.EventConnected, name)
		if err != nil {
			return err
		}
		t.usable = append(t.usable, up.at.Sub(begun))
	}
	var first []time.Duration
	for _, p := range peers {
		if requests := p.requestsSince(begun); len(requests) > 0 {
			first = append(first, requests[0].Sub(begun))
		}
	}
	slices.Sort(first)
	t.noticed = first
	t.within("the first try", first[0], wakeLimit)
	spread := first[len(first)-1] - first[0]
	t.check(spread >= 20*time.Millisecond, "all were tried within %s of one another, not one after the other", short(spread))
	var moments []string
	for _, d := range first {
		moments = append(moments, short(d))
	}
	t.remark("tried after %s", strings.Join(moments, ", "))
	return nil
}
