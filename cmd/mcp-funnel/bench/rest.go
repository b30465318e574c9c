package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"mcp-funnel/singleton"
)

const (
	// starts is how often a bridge is started.
	starts = 20
	// sessions is how many are attached to see what one costs.
	sessions = 200
	// settleTime is how long memory is left alone before it is read.
	settleTime = 3 * time.Second
)

// measureRest measures the program while it does little: its memory, and how fast a
// bridge starts.
func measureRest(ctx context.Context, p *place, t *table) (err error) {
	app, err := p.startApp(ctx, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, app.stop()) }()

	bridge := p.bridge(ctx)
	c, err := startClient(bridge)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.open(); err != nil {
		return err
	}
	if err := c.call(0, newRequest(0, "tools/call", `"name":"bench__small",`), 1); err != nil {
		return err
	}
	if err := pause(ctx, settleTime); err != nil {
		return err
	}
	idle, err := pss(app.cmd.Process.Pid)
	if err != nil {
		return err
	}
	attached, err := pss(bridge.Process.Pid)
	if err != nil {
		return err
	}
	t.add("idle app with one server, PSS", mib(idle), "≤ 20 MiB", idle <= 20<<20)
	t.add("attached bridge, PSS", mib(attached), "≤ 6 MiB", attached <= 6<<20)
	if err := measureStarts(ctx, p, t); err != nil {
		return err
	}
	return measureSessions(ctx, p, app.cmd.Process.Pid, t)
}

func mib(bytes int) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// measureStarts measures from the start of a bridge's process to the list of tools.
func measureStarts(ctx context.Context, p *place, t *table) error {
	var took []float64
	for range starts {
		begun := time.Now()
		c, err := startClient(p.bridge(ctx))
		if err != nil {
			return err
		}
		if err := c.open(); err != nil {
			return err
		}
		took = append(took, time.Since(begun).Seconds()*1000)
		if err := c.close(); err != nil {
			return err
		}
	}
	typical := median(took)
	t.add(fmt.Sprintf("bridge: exec → tools/list, median of %d", starts), fmt.Sprintf("%.1f ms", typical), "≤ 25 ms", typical <= 25)
	return nil
}

// measureSessions attaches many clients, of which each lists the tools and calls one.
func measureSessions(ctx context.Context, p *place, pid int, t *table) (err error) {
	if err := pause(ctx, settleTime); err != nil {
		return err
	}
	before, err := pss(pid)
	if err != nil {
		return err
	}
	for range sessions {
		conn, _, err := singleton.Dial(ctx, p.runtimeDir(), singleton.Hello{Role: singleton.RoleBridge, Name: "funnel"})
		if err != nil {
			return fmt.Errorf("attaching: %w", err)
		}
		c := newClient(conn, conn.R)
		defer func() { err = errors.Join(err, c.close()) }() // all at the end: they are held together
		if err := c.open(); err != nil {
			return err
		}
		if err := c.call(0, newRequest(0, "tools/call", `"name":"bench__small",`), 1); err != nil {
			return err
		}
	}
	if err := pause(ctx, settleTime); err != nil {
		return err
	}
	after, err := pss(pid)
	if err != nil {
		return err
	}
	each := float64(after-before) / sessions / 1024
	t.add(fmt.Sprintf("app, per session at %d, PSS", sessions), fmt.Sprintf("%.1f KiB", each), "≤ 60 KiB", each <= 60)
	return nil
}

// pss is the proportional set size of a process in bytes (proc(5), smaps_rollup).
func pss(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, fmt.Errorf("reading a process's memory: %w", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := bytes.Fields(lines.Bytes())
		if len(fields) == 3 && string(fields[0]) == "Pss:" {
			kib, err := strconv.Atoi(string(fields[1]))
			return kib << 10, err
		}
	}
	return 0, errors.New("smaps_rollup has no line Pss")
}
