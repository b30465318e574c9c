//go:build linux

package main

import (
	"context"
	"slices"
	"syscall"
	"time"

	"mcp-funnel/core/status"
)

// leftFaults are servers of several processes of which some stay.
func leftFaults() []fault {
	return []fault{
		{name: "stdio/child left", did: "kill -9 of a server with a child that holds its pipes", play: func(ctx context.Context, t *trial) error {
			return childLeft(ctx, t, modeParent, time.Second)
		}},
		{name: "stdio/deaf child left", did: "the same with a child that ignores SIGTERM", play: func(ctx context.Context, t *trial) error {
			return childLeft(ctx, t, modeDeafParent, termGrace+time.Second)
		}},
	}
}

// children are the sandbox's processes with that tag except pid.
func (t *trial) children(pid int) []process {
	all := marked(t.dir)
	i := slices.IndexFunc(all, func(p process) bool { return p.pid == pid })
	if i < 0 {
		return nil
	}
	tag := all[i].tag
	return slices.DeleteFunc(all, func(p process) bool { return p.pid == pid || p.tag != tag })
}

// childLeft kills the leader alone. The child must be gone before the server is
// connected again.
func childLeft(ctx context.Context, t *trial, mode string, limit time.Duration) error {
	client, before, err := t.startOne(ctx, t.own("-mode", mode))
	if err != nil {
		return err
	}
	if err := untilStable(ctx); err != nil {
		return err
	}
	children := t.children(before.PID)
	if len(children) != 1 {
		t.check(false, "the server has %d children, want 1", len(children))
		return nil
	}
	mark, begun := t.events.mark(), time.Now()
	if err := signal(before.PID, syscall.SIGKILL); err != nil {
		return err
	}
	lost, err := t.events.await(ctx, mark, status.EventDisconnected, "one")
	if err != nil {
		return err
	}
	back, err := t.events.await(ctx, mark, status.EventConnected, "one")
	if err != nil {
		return err
	}
	if child := children[0].pid; alive(child) {
		seen := time.Now()
		if err := eventually(ctx, "the child ends", func() bool { return !alive(child) }); err != nil {
			return err
		}
		t.check(false, "the child lived beside the new server, for %s at least", short(time.Since(seen)))
	}
	t.noticed, t.usable = samples{lost.at.Sub(begun)}, samples{back.at.Sub(begun)}
	t.within("being connected again", t.usable[0], limit)
	_, err = client.call(ctx, "one__pid")
	return err
}
