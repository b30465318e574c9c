package wakeup

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is a watcher in a bubble, on a machine that sleeps when told so. Its
// sources say what the test says.
type machine struct {
	ahead    atomic.Int64 // of the wall clock, in ns
	readings atomic.Int64
	says     chan event

	mu    sync.Mutex
	heard []Cause
}

// start runs the watcher until the test ends.
func start(t *testing.T) *machine {
	t.Helper()
	m := &machine{says: make(chan event)}
	w := New(Options{Environ: func(string) string { return "" }, Log: slog.New(slog.DiscardHandler)})
	awake := w.clock.awake
	w.clock = clock{
		wall: func() time.Time {
			m.readings.Add(1)
			return time.Now().Round(0).Add(time.Duration(m.ahead.Load()))
		},
		awake: awake,
	}
	w.sources = []source{func(ctx context.Context, report func(event)) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case e := <-m.says:
				report(e)
			}
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx, m.hear) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
	synctest.Wait()
	return m
}

func (m *machine) hear(c Cause) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard = append(m.heard, c)
}

// jump sets the wall clock ahead of the other, as sleep does.
func (m *machine) jump(d time.Duration) { m.ahead.Add(int64(d)) }

func (m *machine) say(e event) {
	m.says <- e
	synctest.Wait()
}

// expect lets time pass and checks what was reported since the last call.
func (m *machine) expect(t *testing.T, within time.Duration, want ...Cause) {
	t.Helper()
	time.Sleep(within)
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(m.heard, want) {
		t.Errorf("within %v: reported %q, want %q", within, m.heard, want)
	}
	m.heard = nil
}

func TestClocksShowASleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t)
		m.expect(t, time.Hour)
		m.jump(8 * time.Hour)
		m.expect(t, compareOften, Resumed)
		m.expect(t, time.Hour)
		m.jump(shortestSleep + time.Second)
		m.expect(t, compareOften, Resumed)
		m.jump(shortestSleep)
		m.expect(t, time.Hour)
	})
}

func TestClockSetForwardCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t)
		m.jump(24 * time.Hour)
		m.expect(t, 48*time.Hour, Resumed)
		m.jump(time.Hour)
		m.expect(t, compareOften, Resumed)
	})
}

func TestClockSetBackwardDoesNothingAndHidesNoSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t)
		m.jump(-24 * time.Hour)
		m.expect(t, time.Hour)
		m.jump(time.Minute)
		m.expect(t, compareOften, Resumed)
		m.jump(-24 * time.Hour) // right after a resume
		m.expect(t, compareOften)
		m.jump(time.Minute)
		m.expect(t, compareOften, Resumed)
		m.jump(-24 * time.Hour)
		m.expect(t, compareOften)
		m.say(resumeTold)
		m.expect(t, 0, Resumed)
	})
}

func TestClockThatGoesWrongIsNoSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t)
		for range 1000 {
			m.jump(20 * time.Millisecond)
			time.Sleep(compareOften)
		}
		m.expect(t, time.Minute)
	})
}

func TestOneResumeByTwoSources(t *testing.T) {
	tests := map[string]func(t *testing.T, m *machine){
		"logind first": func(t *testing.T, m *machine) {
			m.jump(time.Hour)
			m.say(resumeTold)
			m.expect(t, 0, Resumed)
		},
		"clock first": func(t *testing.T, m *machine) {
			m.jump(time.Hour)
			m.expect(t, compareOften, Resumed)
			m.expect(t, 5*time.Second)
			m.say(resumeTold)
			m.expect(t, 0)
		},
		"logind twice": func(t *testing.T, m *machine) {
			m.jump(time.Hour)
			m.say(resumeTold)
			m.say(resumeTold)
			m.expect(t, 0, Resumed)
		},
		"logind without a jump": func(t *testing.T, m *machine) {
			m.say(resumeTold)
			m.expect(t, 0, Resumed)
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := start(t)
				test(t, m)
				m.expect(t, time.Hour) // no second report ever
				test(t, m)             // and the next sleep counts again
				m.expect(t, time.Hour)
			})
		})
	}
}

func TestClocksShowASleepThatLogindMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t)
		m.say(logindFound)
		m.jump(time.Hour)
		m.expect(t, compareRarely, Resumed)
		m.say(logindLost)
		m.jump(time.Hour)
		m.expect(t, compareOften, Resumed)
	})
}

func TestSleepRightAfterAResumeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t)
		m.jump(time.Hour)
		m.say(resumeTold)
		m.expect(t, time.Second, Resumed)
		m.jump(8 * time.Hour) // the lid was opened for a second only
		m.say(resumeTold)
		m.expect(t, 0, Resumed)
		m.expect(t, 2*time.Second)
		m.jump(8 * time.Hour)
		m.expect(t, compareOften, Resumed)
	})
}

func TestBurstOfAddressesIsReportedOnceItHasSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t)
		for range 4 {
			m.say(addressFound)
			m.expect(t, 500*time.Millisecond)
		}
		m.expect(t, quiet-600*time.Millisecond)
		m.expect(t, 100*time.Millisecond, NetworkBack)
		m.expect(t, time.Hour)
		m.say(addressFound)
		m.expect(t, quiet, NetworkBack)
	})
}

func TestEndlessBurstIsReportedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t)
		for range 5 {
			m.say(addressFound)
			m.expect(t, time.Second-time.Millisecond)
			time.Sleep(time.Millisecond)
		}
		m.expect(t, 0, NetworkBack)
		m.say(addressFound)
		m.expect(t, time.Second)
		m.expect(t, time.Hour, NetworkBack)
	})
}

func TestResumeAndNetworkAreReportedBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t)
		m.jump(time.Hour)
		m.say(resumeTold)
		m.say(addressFound)
		m.expect(t, time.Minute, Resumed, NetworkBack)
	})
}

func TestIdleWatcherOnlyReadsTheClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t)
		for _, step := range []struct {
			says event
			want int64 // in an hour
		}{{logindLost, 120}, {logindFound, 12}, {logindLost, 120}} {
			m.say(step.says)
			m.readings.Store(0)
			m.expect(t, time.Hour)
			if got := m.readings.Load(); got > step.want || got < step.want-1 {
				t.Errorf("%d wake-ups in an hour, want %d", got, step.want)
			}
		}
	})
}

func TestMissingSourceIsLoggedOnceAndLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := New(Options{
			Environ: func(string) string { return "" },
			Log:     slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		w.sources = []source{
			func(context.Context, func(event)) error { return errors.New("not here") },
			func(_ context.Context, report func(event)) error { report(resumeTold); return nil },
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var heard []Cause
		if err := w.Run(ctx, func(c Cause) { heard = append(heard, c) }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Cause{Resumed}, heard); diff != "" {
			t.Error(diff)
		}
		if n := strings.Count(log.String(), "not here"); n != 1 || !strings.Contains(log.String(), "level=DEBUG") {
			t.Errorf("logged %d times:\n%s", n, log.String())
		}
	})
}

func TestInvariant7_RunJoinsASourceThatIsReporting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := New(Options{Environ: func(string) string { return "" }, Log: slog.New(slog.DiscardHandler)})
		var ended atomic.Bool
		w.sources = []source{func(ctx context.Context, report func(event)) error {
			defer ended.Store(true)
			<-ctx.Done()
			report(resumeTold) // nobody listens any more
			time.Sleep(time.Second)
			return ctx.Err()
		}}
		time.AfterFunc(time.Minute, cancel)
		if err := w.Run(ctx, func(c Cause) { t.Errorf("reported %q", c) }); err != nil {
			t.Fatal(err)
		}
		if !ended.Load() {
			t.Error("Run left a source behind")
		}
	})
}

func TestSystemClockGoesOn(t *testing.T) {
	c := systemClock()
	before := c.read()
	time.Sleep(50 * time.Millisecond)
	after := c.read()
	if d := after.awake - before.awake; d < 40*time.Millisecond {
		t.Errorf("awake for %v while 50 ms went by", d)
	}
	if !after.wall.After(before.wall) {
		t.Errorf("the wall clock went from %v to %v", before.wall, after.wall)
	}
	if strings.Contains(before.wall.String(), "m=") {
		t.Error("the wall clock carries a monotonic reading, which would be compared instead")
	}
}
