//go:build linux

package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"mcp-funnel/core/status"
)

// What a server gets at most to end: after the end of its input, and after SIGTERM.
const (
	eofGrace  = 2 * time.Second
	termGrace = 4 * time.Second
)

// callTimeout is callTimeoutMs of servers that hang.
const callTimeout = time.Second

// timeoutLimit is by when such a call is answered.
const timeoutLimit = callTimeout + 300*time.Millisecond

// hungFaults are servers that live and do not do what they should.
func hungFaults() []fault {
	return []fault{
		{name: "stdio/hung in a call", did: "one call is never answered (callTimeoutMs 1000)", play: hungInCall},
		{name: "stdio/frozen", did: "SIGSTOP; a call (callTimeoutMs 1000), then Reconnect", play: frozen},
		{name: "stdio/deaf", did: "ignores the end of its input and SIGTERM; Reconnect", play: deaf},
		{name: "stdio/noise", did: "writes 100 KiB of garbage to stdout before each answer", play: noise},
		{name: "stdio/flood", did: "writes 16 MiB to stderr within a call", play: flood},
	}
}

// impatient is a server whose calls end by callTimeout.
func impatient(e entry) entry {
	e.CallTimeoutMs = int(callTimeout.Milliseconds())
	return e
}

// startOne starts an app over one server and attaches a client.
func (t *trial) startOne(ctx context.Context, e entry) (*session, status.Server, error) {
	if err := t.startConnected(ctx, one(e)); err != nil {
		return nil, status.Server{}, err
	}
	client, err := t.attach(ctx)
	if err != nil {
		return nil, status.Server{}, err
	}
	s, err := t.server(ctx, "one")
	return client, s, err
}

func hungInCall(ctx context.Context, t *trial) error {
	client, before, err := t.startOne(ctx, impatient(t.own()))
	if err != nil {
		return err
	}
	begun := time.Now()
	_, err = client.call(ctx, "one__hang")
	t.noticed = samples{time.Since(begun)}
	t.refused("the call", err, "callTimeoutMs")
	t.within("the error", t.noticed[0], timeoutLimit)
	pid, took, err := measureCall(ctx, client, "one__pid", begun)
	if err != nil {
		return err
	}
	t.usable = samples{took}
	t.check(pid == fmt.Sprint(before.PID), "the server was restarted, for one call that hung")
	cancelled, err := client.call(ctx, "one__cancelled")
	t.check(cancelled == "1", "the server got %s notifications/cancelled, want 1", cancelled)
	return err
}

// endsByKill reconnects a server that has to be killed and measures it from begun.
func (t *trial) endsByKill(ctx context.Context, client *session, before status.Server) error {
	begun := time.Now()
	if err := t.reconnect(ctx); err != nil {
		return err
	}
	if err := eventually(ctx, "the server ends", func() bool { return ended(before.PID) }); err != nil {
		return err
	}
	took := time.Since(begun)
	t.within("ending it", took, eofGrace+termGrace+500*time.Millisecond)
	t.check(took > eofGrace+termGrace-200*time.Millisecond, "it was killed after %s already", short(took))
	if _, err := t.until(ctx, "one", "another process", func(s status.Server) bool {
		return s.State == status.Connected && s.PID != before.PID
	}); err != nil {
		return err
	}
	_, took, err := measureCall(ctx, client, "one__pid", begun)
	t.usable = samples{took}
	t.within("being usable again", took, eofGrace+termGrace+time.Second)
	return err
}

func frozen(ctx context.Context, t *trial) error {
	client, before, err := t.startOne(ctx, impatient(t.own()))
	if err != nil {
		return err
	}
	if err := signal(before.PID, syscall.SIGSTOP); err != nil {
		return err
	}
	if err := eventually(ctx, "the server stops", func() bool { return stopped(before.PID) }); err != nil {
		return err
	}
	begun := time.Now()
	_, err = client.call(ctx, "one__pid")
	t.noticed = samples{time.Since(begun)}
	t.refused("the call", err, "callTimeoutMs")
	t.within("the error", t.noticed[0], timeoutLimit)
	t.remark("usable again is measured from Reconnect on")
	return t.endsByKill(ctx, client, before)
}

func deaf(ctx context.Context, t *trial) error {
	client, before, err := t.startOne(ctx, t.own("-mode", modeDeaf))
	if err != nil {
		return err
	}
	t.noticedAs = "a person's order"
	return t.endsByKill(ctx, client, before)
}

func noise(ctx context.Context, t *trial) error {
	client, before, err := t.startOne(ctx, t.own("-mode", modeNoise))
	if err != nil {
		return err
	}
	begun := time.Now()
	for range 10 {
		pid, err := client.call(ctx, "one__pid")
		if err != nil {
			return err
		}
		t.check(pid == fmt.Sprint(before.PID), "the server was restarted")
	}
	t.noticedAs, t.usableAs = "skipped, in its log", "always; a call takes "+short(time.Since(begun)/10)
	return nil
}

func flood(ctx context.Context, t *trial) error {
	client, before, err := t.startOne(ctx, t.own())
	if err != nil {
		return err
	}
	memory := residentKiB(t.app.Process.Pid)
	pid, took, err := measureCall(ctx, client, "one__flood", time.Now())
	if err != nil {
		return err
	}
	t.check(pid == fmt.Sprint(before.PID), "the server was restarted")
	grown := residentKiB(t.app.Process.Pid) - memory
	t.check(grown < 30<<10, "the app grew by %d KiB", grown)
	after, err := t.server(ctx, "one")
	t.check(len(after.StderrTail) <= 5<<10, "status shows %d bytes of stderr", len(after.StderrTail))
	t.noticedAs, t.usableAs = "–", fmt.Sprintf("always; the call takes %s", short(took))
	t.remark("the app grew by %d KiB", grown)
	return err
}
