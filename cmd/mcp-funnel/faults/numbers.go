//go:build linux

package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"mcp-funnel/core/status"
)

// numbers are faults by the hundred, of which counts matter.
func numbers() []fault {
	return []fault{
		{name: "numbers/cycles", did: "500 times Reconnect or kill -9 of one server, 60 with -short", alone: true, play: cycles},
		{name: "numbers/quit", did: "quit over ten servers that ignore everything", play: quitDeaf},
		{name: "numbers/slow probe", did: "50 servers in slow probe, each tried once in a minute", long: true, play: probing},
	}
}

// counts are those of the app at one moment.
type counts struct{ goroutines, descriptors, residentKiB int }

// count reads them when what ended has settled.
func (t *trial) count(ctx context.Context) (counts, error) {
	if err := pause(ctx, time.Second); err != nil {
		return counts{}, err
	}
	r, err := t.status(ctx)
	pid := t.app.Process.Pid
	return counts{r.Goroutines, descriptors(pid), residentKiB(pid)}, err
}

// Cycles of numbers/cycles: the first ones are for warming up.
const (
	warmUp      = 20
	manyCycles  = 500
	shortCycles = 60
)

func cycles(ctx context.Context, t *trial) error {
	e := t.own()
	e.Reconnect = reconnect{MaxAttempts: 10, InitialDelayMs: 10, StableAfterMs: 10}
	if err := t.startConnected(ctx, one(e)); err != nil {
		return err
	}
	if err := t.cycle(ctx, warmUp); err != nil {
		return err
	}
	before, err := t.count(ctx)
	if err != nil {
		return err
	}
	times := manyCycles
	if t.short {
		times = shortCycles
	}
	begun := time.Now()
	if err := t.cycle(ctx, times); err != nil {
		return err
	}
	t.noticedAs, t.usableAs = "–", fmt.Sprintf("%s each", short(time.Since(begun)/time.Duration(times)))
	after, err := t.count(ctx)
	grown := func(what string, before, after, most int, unit string) {
		t.figure(fmt.Sprintf("%s of the app over %d cycles", what, times), fmt.Sprintf("%d → %d%s", before, after, unit),
			fmt.Sprintf("≤ +%d%s", most, unit), after-before <= most)
	}
	grown("goroutines", before.goroutines, after.goroutines, 10, "")
	grown("descriptors", before.descriptors, after.descriptors, 10, "")
	grown("RSS", before.residentKiB>>10, after.residentKiB>>10, 30, " MiB")
	return err
}

// cycle restarts the server so often, by turns in the two ways.
func (t *trial) cycle(ctx context.Context, times int) error {
	s, err := t.in(ctx, "one", status.Connected)
	if err != nil {
		return err
	}
	pid := s.PID
	for i := range times {
		if err := pause(ctx, 12*time.Millisecond); err != nil { // stable
			return err
		}
		mark := t.events.mark()
		if i%2 == 0 {
			err = t.reconnect(ctx)
		} else {
			err = signal(pid, syscall.SIGKILL)
		}
		if err != nil {
			return err
		}
		up, err := t.events.await(ctx, mark, status.EventConnected, "one")
		if err != nil {
			return err
		}
		pid = up.PID
	}
	return nil
}

// quitLimit is what ending everything may take.
const quitLimit = 10 * time.Second

func quitDeaf(ctx context.Context, t *trial) error {
	all := servers{}
	for i := range 10 {
		all[fmt.Sprint("deaf", i)] = t.own("-mode", modeDeaf)
	}
	if err := t.startConnected(ctx, all); err != nil {
		return err
	}
	took, left := t.quit(ctx)
	for _, p := range left {
		t.check(false, "left over after quit: %s", p)
	}
	t.noticedAs = "–"
	t.figure("quit over ten deaf servers", short(took), "≤ "+short(quitLimit), took <= quitLimit)
	return nil
}

// Of numbers/slow probe. A probe comes a minute after the last try, or a quarter of
// it earlier or later; so the first one of each server is within probeTime.
const (
	probers    = 50
	probePause = 35 * time.Second
	probeTime  = time.Minute
)

func probing(ctx context.Context, t *trial) error {
	p, err := t.peer()
	if err != nil {
		return err
	}
	p.stop() // half of them are refused there, and the others exit at once
	all := servers{}
	for i := range probers / 2 {
		all[fmt.Sprint("refused", i)] = at(p.url())
		all[fmt.Sprint("exits", i)] = t.own("-mode", modeExit)
	}
	if err := t.start(ctx, all); err != nil {
		return err
	}
	for name := range all {
		if _, err := t.in(ctx, name, status.SlowProbe); err != nil {
			return err
		}
	}
	if err := pause(ctx, probePause); err != nil {
		return err
	}
	mark, before := t.events.mark(), cpuTime(t.app.Process.Pid)
	if err := pause(ctx, probeTime); err != nil {
		return err
	}
	tries := t.events.count(mark, status.EventSlowProbeAttempt)
	t.check(tries >= probers*9/10, "%d probes were made of %d servers", tries, probers)
	percent := 100 * float64(cpuTime(t.app.Process.Pid)-before) / float64(probeTime)
	const goal = 0.5
	t.noticedAs, t.usableAs = "–", fmt.Sprintf("%d probes", tries)
	t.figure(fmt.Sprintf("CPU of the app with %d servers in slow probe, of one core over %.0f s", probers, probeTime.Seconds()),
		fmt.Sprintf("%.2f %%", percent), fmt.Sprintf("< %.1f %%", goal), percent < goal)
	return nil
}
