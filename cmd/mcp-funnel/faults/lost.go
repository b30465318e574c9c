//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"mcp-funnel/core/status"
)

// Limits of time for servers that were lost.
const (
	// againLimit: a server that had been stable is connected again.
	againLimit = 300 * time.Millisecond
	// calledLimit: a call right after the loss is answered, beyond the server's start.
	calledLimit = 150 * time.Millisecond
)

// one is a config of a single server, called "one".
func one(e entry) servers { return servers{"one": e} }

// lostFaults are servers that end.
func lostFaults() []fault {
	return []fault{
		{name: "stdio/killed", did: "kill -9 of an idle server that was stable", play: killed},
		{name: "stdio/killed, called", did: "kill -9, then a call at once", play: killedThenCalled},
		{name: "stdio/killed in a call", did: "kill -9 while a call is running", play: killedInCall},
		{name: "stdio/crash loop", did: "exits 50 ms after its handshake, every time", play: crashLoop},
		{name: "stdio/closes stdout", did: "closes its output and goes on running", play: closesStdout},
	}
}

// untilStable waits until a connection counts as stable; see quick.
func untilStable(ctx context.Context) error { return pause(ctx, 150*time.Millisecond) }

// breakIdle kills the server and measures until it is connected again.
func (t *trial) breakIdle(ctx context.Context, name string, pid int) (status.Event, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not in %v", patience))
	defer cancel()
	mark := t.events.mark()
	begun := time.Now()
	if err := signal(pid, syscall.SIGKILL); err != nil {
		return status.Event{}, err
	}
	lost, err := t.events.await(ctx, mark, status.EventDisconnected, name)
	if err != nil {
		return status.Event{}, err
	}
	back, err := t.events.await(ctx, mark, status.EventConnected, name)
	if err != nil {
		return status.Event{}, err
	}
	t.noticed = append(t.noticed, lost.at.Sub(begun))
	t.usable = append(t.usable, back.at.Sub(begun))
	return back.Event, nil
}

func killed(ctx context.Context, t *trial) error {
	if err := t.startConnected(ctx, one(t.own())); err != nil {
		return err
	}
	s, err := t.server(ctx, "one")
	if err != nil {
		return err
	}
	pid := s.PID
	for range t.rounds() {
		if err := untilStable(ctx); err != nil {
			return err
		}
		back, err := t.breakIdle(ctx, "one", pid)
		if err != nil {
			return err
		}
		t.check(!alive(pid) && back.PID != pid, "the killed server still lives")
		pid = back.PID
	}
	t.within("being connected again", t.usable.median(), againLimit)
	return nil
}

// startTime is how long the server alone takes from its start to its list of tools.
func (t *trial) startTime(ctx context.Context, e entry) (time.Duration, error) {
	var all samples
	for range 5 {
		begun := time.Now()
		cmd := exec.Command(e.Command, e.Args...)
		cmd.Env = t.environ
		c, err := open(ctx, cmd)
		if err != nil {
			return 0, err
		}
		_, err = c.request(ctx, "tools/list", "{}")
		all = append(all, time.Since(begun))
		c.close()
		if err != nil {
			return 0, err
		}
	}
	return all.median(), nil
}

// wakeInterval is the least time between two attempts that calls bring forward.
const wakeInterval = 5 * time.Second

func killedThenCalled(ctx context.Context, t *trial) error {
	e := t.own()
	alone, err := t.startTime(ctx, e)
	if err != nil {
		return err
	}
	if err := t.startConnected(ctx, one(e)); err != nil {
		return err
	}
	client, err := t.attach(ctx)
	if err != nil {
		return err
	}
	refused, rounds := 0, t.rounds()
	for range rounds {
		if err := pause(ctx, wakeInterval+100*time.Millisecond); err != nil {
			return err
		}
		err := t.killThenCall(ctx, client)
		if answer, ok := errors.AsType[*answerError](err); ok {
			refused++
			t.remark("a call was refused: %s", answer)
		} else if err != nil {
			return err
		}
	}
	t.check(refused == 0, "%d of %d calls failed, although the server had ended before they were made", refused, rounds)
	t.within("the answer to a call", t.usable.median(), alone+calledLimit)
	t.remark("the server alone takes %s from its start to its list of tools", short(alone))
	return nil
}

// killThenCall is one round of that.
func (t *trial) killThenCall(ctx context.Context, client *session) error {
	s, err := t.in(ctx, "one", status.Connected)
	if err != nil {
		return err
	}
	mark := t.events.mark()
	begun := time.Now()
	if err := signal(s.PID, syscall.SIGKILL); err != nil {
		return err
	}
	// A call that reaches it before would be lost with it.
	if err := eventually(ctx, "the killed server ends", func() bool { return ended(s.PID) }); err != nil {
		return err
	}
	text, took, err := measureCall(ctx, client, "one__pid", begun)
	if err != nil {
		return err
	}
	t.check(text != fmt.Sprint(s.PID), "the killed server answered")
	lost, err := t.events.await(ctx, mark, status.EventDisconnected, "one")
	t.noticed, t.usable = append(t.noticed, lost.at.Sub(begun)), append(t.usable, took)
	return err
}

func killedInCall(ctx context.Context, t *trial) error {
	if err := t.startConnected(ctx, one(t.own())); err != nil {
		return err
	}
	client, err := t.attach(ctx)
	if err != nil {
		return err
	}
	s, err := t.server(ctx, "one")
	if err != nil {
		return err
	}
	if err := untilStable(ctx); err != nil {
		return err
	}
	hung := make(chan error, 1)
	go func() {
		_, err := client.call(ctx, "one__hang")
		hung <- err
	}()
	if err := pause(ctx, 100*time.Millisecond); err != nil {
		return err
	}
	begun := time.Now()
	if err := signal(s.PID, syscall.SIGKILL); err != nil {
		return err
	}
	err = <-hung
	t.noticed = samples{time.Since(begun)}
	t.refused("the call that was running", err, "one", "may have run")
	_, took, err := measureCall(ctx, client, "one__pid", begun)
	t.usable = samples{took}
	t.within("the next call", took, againLimit)
	return err
}

func crashLoop(ctx context.Context, t *trial) error {
	const attempts = 4
	e := t.own("-mode", modeCrash, "-for", "50ms", "-starts", t.path("starts"))
	e.Reconnect = reconnect{MaxAttempts: attempts, InitialDelayMs: 50, MaxDelayMs: 200, SlowProbeIntervalMs: 2000}
	begun := time.Now()
	if err := t.start(ctx, one(e)); err != nil {
		return err
	}
	if _, err := t.events.await(ctx, 0, status.EventSlowProbeStarted, "one"); err != nil {
		return err
	}
	t.noticedAs = "slow probe after " + short(time.Since(begun))
	starts := countLines(t.path("starts"))
	t.check(starts == attempts+1, "it was started %d times until slow probe, want %d", starts, attempts+1)
	if err := pause(ctx, 5*time.Second); err != nil {
		return err
	}
	more := countLines(t.path("starts")) - starts
	t.check(more >= 1 && more <= 4, "in slow probe it was started %d times in 5 s, want one every 2 s", more)
	s, err := t.server(ctx, "one")
	t.check(s.State == status.SlowProbe || s.State == status.Connected, "it is %s, want slow_probe", s.State)
	t.usableAs = fmt.Sprintf("never; %d starts, then one per probe", starts)
	return err
}

func closesStdout(ctx context.Context, t *trial) error {
	if err := t.startConnected(ctx, one(t.own())); err != nil {
		return err
	}
	client, err := t.attach(ctx)
	if err != nil {
		return err
	}
	if err := untilStable(ctx); err != nil {
		return err
	}
	begun := time.Now()
	_, err = client.call(ctx, "one__mute")
	t.noticed = samples{time.Since(begun)}
	t.refused("the call that was running", err, "closed its output")
	_, took, err := measureCall(ctx, client, "one__pid", begun)
	t.usable = samples{took}
	t.within("the next call", took, time.Second)
	return err
}

// countLines counts the lines of a file; one that is not there has none.
func countLines(path string) int {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	count := 0
	for _, b := range content {
		if b == '\n' {
			count++
		}
	}
	return count
}
