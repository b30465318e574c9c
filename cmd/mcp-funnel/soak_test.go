//go:build soak && linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-funnel/core"
)

// soakConfig has four servers; $COMMENT changes with each reload.
const soakConfig = `{
  // $COMMENT
  "mcpServers": {
    "a": { "command": "$PROGRAM", "args": ["demo-server"] },
    "b": { "command": "$PROGRAM", "args": ["demo-server", "--tools", "$TOOLS"] },
    "c": { "command": "sh", "args": ["-c", "$PROGRAM demo-server; sleep 1"] },
    "d": { "command": "$PROGRAM", "args": ["demo-server"] }
  },
  "reconnect": { "maxAttempts": 5, "initialDelayMs": 50, "maxDelayMs": 500, "slowProbeIntervalMs": 1000 }
}`

// TestSoak loads one app in every way at once, for SOAK_TIME (10m), prints how its
// goroutines, file descriptors and memory go, and fails on a trend.
func TestSoak(t *testing.T) {
	length := 10 * time.Minute
	if text := os.Getenv("SOAK_TIME"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	s := newSandbox(t, "")
	reload := func(n int) {
		text := strings.NewReplacer("$COMMENT", fmt.Sprint("reload ", n), "$TOOLS", strconv.Itoa(n%5)).Replace(soakConfig)
		s.writeConfig(text)
	}
	reload(0)
	app := s.start("serve")
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	counts := &soakCounts{}
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() { s.soakSession(ctx, counts) })
	}
	load.Go(func() { s.soakCrashes(ctx, counts) })
	load.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			pause(ctx, 7*time.Second)
			reload(n)
			counts.reloads.Add(1)
		}
	})
	samples := s.soakSamples(ctx, app.cmd.Process.Pid, length/60, counts)
	load.Wait()
	judge(t, samples)
}

// soakCounts counts what the load did.
type soakCounts struct{ sessions, calls, errors, crashes, reloads atomic.Int64 }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// soakSession attaches, calls for a while, detaches, and begins again.
func (s *sandbox) soakSession(ctx context.Context, counts *soakCounts) {
	big := strings.Repeat("x", 1<<20)
	for ctx.Err() == nil {
		c, err := startClient(s.command("bridge"))
		if err != nil {
			s.t.Error(err)
			return
		}
		counts.sessions.Add(1)
		if _, err := c.initialize(ctx); err != nil && ctx.Err() == nil {
			s.t.Errorf("initialize: %v", err)
		}
		for i := range 200 {
			if ctx.Err() != nil {
				break
			}
			tool, arguments := soakCall(i, big)
			calling, cancel := context.WithTimeout(ctx, 30*time.Second)
			_, err := c.call(calling, tool, arguments)
			// Servers are killed all the time, so errors are part of it; silence is not.
			if calling.Err() != nil && ctx.Err() == nil {
				s.t.Errorf("%s was not answered: %v", tool, err)
			}
			cancel()
			counts.calls.Add(1)
			if err != nil {
				counts.errors.Add(1)
			}
			pause(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
		}
		_ = c.stdin.Close()
		for range c.lines { // until it ended
		}
		_ = c.cmd.Wait()
	}
}

// soakCall is the i-th call of a session.
func soakCall(i int, big string) (tool, arguments string) {
	server := string("abcd"[i%4])
	switch {
	case i%50 == 49:
		return server + "__crash", "{}"
	case i%20 == 19:
		return server + "__echo", `{"message":"` + big + `"}`
	case i%7 == 6:
		return server + "__progress", "{}"
	}
	return server + "__add", `{"a":1,"b":2}`
}

// soakCrashes kills a server now and then.
func (s *sandbox) soakCrashes(ctx context.Context, counts *soakCounts) {
	for ctx.Err() == nil {
		pause(ctx, time.Duration(500+rand.IntN(1500))*time.Millisecond)
		r := s.report(func(core.Report) bool { return true })
		if pid := r.Servers[rand.IntN(len(r.Servers))].PID; pid > 0 {
			if process, err := os.FindProcess(pid); err == nil {
				_ = process.Kill() // it may have crashed by itself
				counts.crashes.Add(1)
			}
		}
	}
}

// soakSample is the app at one moment.
type soakSample struct{ goroutines, fds, rssKiB int }

// soakSamples looks at the app every interval and prints what it sees.
func (s *sandbox) soakSamples(ctx context.Context, pid int, interval time.Duration, counts *soakCounts) []soakSample {
	begun := time.Now()
	var samples []soakSample
	fmt.Println("   time  goroutines  fds  RSS MiB  sessions   calls  errors  kills  reloads")
	for ctx.Err() == nil {
		pause(ctx, interval)
		r := s.report(func(core.Report) bool { return true })
		fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		sample := soakSample{goroutines: r.Goroutines, fds: len(fds), rssKiB: residentKiB(pid)}
		samples = append(samples, sample)
		fmt.Printf("%7s  %10d  %3d  %7.1f  %8d  %6d  %6d  %5d  %7d\n", time.Since(begun).Round(time.Second),
			sample.goroutines, sample.fds, float64(sample.rssKiB)/1024, counts.sessions.Load(), counts.calls.Load(),
			counts.errors.Load(), counts.crashes.Load(), counts.reloads.Load())
	}
	return samples
}

// residentKiB is the resident memory of a process.
func residentKiB(pid int) int {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}

// judge compares the medians of the second and the last quarter: the first is for
// warming up.
func judge(t *testing.T, samples []soakSample) {
	t.Helper()
	if len(samples) < 8 {
		t.Fatalf("only %d samples", len(samples))
	}
	quarter := len(samples) / 4
	early, late := samples[quarter:2*quarter], samples[len(samples)-quarter:]
	for name, of := range map[string]struct {
		value func(soakSample) int
		slack int
	}{
		"goroutines": {func(s soakSample) int { return s.goroutines }, 15},
		"fds":        {func(s soakSample) int { return s.fds }, 15},
		"RSS KiB":    {func(s soakSample) int { return s.rssKiB }, 30 << 10},
	} {
		before, after := median(early, of.value), median(late, of.value)
		fmt.Printf("%s: %d early, %d late\n", name, before, after)
		if after > before+of.slack {
			t.Errorf("%s grew from %d to %d", name, before, after)
		}
	}
}

func median(samples []soakSample, of func(soakSample) int) int {
	values := make([]int, 0, len(samples))
	for _, s := range samples {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
