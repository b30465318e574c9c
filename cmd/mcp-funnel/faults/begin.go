//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"mcp-funnel/core/status"
)

// startFaults are servers that do not start as they should.
func startFaults() []fault {
	return []fault{
		{name: "stdio/exits at once", did: "exits with 3 at its start and says why on stderr", play: exitsAtOnce},
		{name: "stdio/command missing", did: "its command is not there", play: commandMissing},
		{name: "stdio/slow start", did: "takes its time to start: 90 s, 5 s with -short", play: slowStart},
	}
}

func exitsAtOnce(ctx context.Context, t *trial) error {
	begun := time.Now()
	if err := t.start(ctx, one(t.own("-mode", modeExit, "-starts", t.path("starts")))); err != nil {
		return err
	}
	first, err := t.events.await(ctx, 0, status.EventReconnecting, "one")
	if err != nil {
		return err
	}
	t.noticed = samples{first.at.Sub(begun)}
	s, err := t.in(ctx, "one", status.SlowProbe)
	if err != nil {
		return err
	}
	t.contains("the status", s.LastError, "exit code 3")
	t.contains("stderr in the status", s.StderrTail, complaint)
	starts := countLines(t.path("starts"))
	t.check(starts == quick().MaxAttempts+1, "it was started %d times, want %d", starts, quick().MaxAttempts+1)
	t.usableAs = "never; slow probe"
	return nil
}

func commandMissing(ctx context.Context, t *trial) error {
	begun := time.Now()
	if err := t.start(ctx, one(entry{Command: "no-such-command-at-all", Reconnect: quick()})); err != nil {
		return err
	}
	first, err := t.events.await(ctx, 0, status.EventReconnecting, "one")
	if err != nil {
		return err
	}
	t.noticed = samples{first.at.Sub(begun)}
	s, err := t.in(ctx, "one", status.SlowProbe)
	t.contains("the status", s.LastError, "no-such-command-at-all")
	t.usableAs = "never; slow probe"
	return err
}

func slowStart(ctx context.Context, t *trial) error {
	length := 90 * time.Second
	if t.short {
		length = 5 * time.Second
	}
	begun := time.Now()
	if err := t.start(ctx, one(t.own("-mode", modeSlow, "-for", length.String(), "-starts", t.path("starts")))); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, length+patience, fmt.Errorf("not in %v", length+patience))
	defer cancel()
	up, err := t.events.await(ctx, 0, status.EventConnected, "one")
	if err != nil {
		return err
	}
	t.noticedAs, t.usable = "not to be", samples{up.at.Sub(begun)}
	starts := countLines(t.path("starts"))
	t.check(starts == 1, "it was started %d times", starts)
	t.within("being connected", t.usable[0], length+time.Second)
	return nil
}
