package upstream

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-funnel/core/config"
	"mcp-funnel/core/status"
)

// testPolicy has round numbers and no jitter.
func testPolicy() config.Reconnect {
	return config.Reconnect{
		Enabled: true, MaxAttempts: 3, InitialDelay: time.Second, BackoffMultiplier: 2, MaxDelay: 3 * time.Second,
		SlowProbeInterval: time.Minute, StableAfter: time.Minute,
	}
}

// half is the random source whose jitter is zero.
func half() float64 { return 0.5 }

// drive lets a machine live: failing attempts, timers firing exactly when due. It
// returns the state after each failure and the delay to the next attempt.
func drive(m *machine, now *time.Time, attempts int) (states []status.State, delays []time.Duration) {
	for range attempts {
		m.step(inFailed, *now)
		states = append(states, m.state)
		delays = append(delays, m.wakeAt.Sub(*now))
		*now = m.wakeAt
		if m.step(inTimer, *now) != doAttempt {
			return append(states, "no attempt at its time"), delays
		}
	}
	return states, delays
}

func TestMachineRetriesTheFirstConnectThenProbesForEver(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(testPolicy(), half, now)
	if m.step(inEnabled, now) != doAttempt || m.state != status.Connecting {
		t.Fatalf("enabling: state %s, phase %d", m.state, m.phase)
	}
	states, delays := drive(m, &now, 6)
	wantStates := []status.State{
		status.Reconnecting, status.Reconnecting, status.Reconnecting, status.SlowProbe, status.SlowProbe, status.SlowProbe,
	}
	wantDelays := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, time.Minute, time.Minute, time.Minute}
	if diff := cmp.Diff(wantStates, states); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(wantDelays, delays); diff != "" {
		t.Error(diff)
	}
	if m.probe != 2 {
		t.Errorf("after two failed probes the number is %d", m.probe)
	}
}

func TestMachineFirstRetryAfterAStableConnectionIsQuick(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(testPolicy(), half, now)
	m.step(inEnabled, now)
	m.step(inConnected, now)
	now = now.Add(time.Minute)
	if m.step(inLost, now) != doStop || m.state != status.Reconnecting {
		t.Fatalf("a loss: state %s", m.state)
	}
	if got := m.wakeAt.Sub(now); got != quickRetry {
		t.Errorf("first retry after %s, want %s", got, quickRetry)
	}
	m.step(inStopped, now)
	now = m.wakeAt
	m.step(inTimer, now)
	_, delays := drive(m, &now, 2)
	if diff := cmp.Diff([]time.Duration{time.Second, 2 * time.Second}, delays); diff != "" {
		t.Error("the quick retry must not count for the growth:", diff)
	}
}

func TestMachineCountsOnThroughACrashLoop(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(testPolicy(), half, now)
	m.step(inEnabled, now)
	for range 4 { // up for two seconds each time
		m.step(inConnected, now)
		now = now.Add(2 * time.Second)
		m.step(inLost, now)
		m.step(inStopped, now)
		now = m.wakeAt
		m.step(inTimer, now)
	}
	if m.state != status.SlowProbe {
		t.Errorf("after four short lives: %s, want slow probe", m.state)
	}
}

func TestMachineWaitsForTheOldProcessBeforeTheNextAttempt(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(testPolicy(), half, now)
	m.step(inEnabled, now)
	m.step(inConnected, now)
	m.step(inLost, now)
	now = now.Add(10 * time.Second) // much later than wakeAt: the old one was stubborn
	if got := m.step(inTimer, now); got != doNothing {
		t.Fatal("an attempt began while the old process was still being stopped")
	}
	if got := m.step(inStopped, now); got != doAttempt {
		t.Fatal("the attempt that was due did not begin when the old process was gone")
	}
}

func TestMachineReconnectActsAtOnceInEveryPhase(t *testing.T) {
	policy := testPolicy()
	now := time.Unix(0, 0)
	for name, prepare := range map[string]func(*machine){
		"waiting":    func(m *machine) { m.step(inFailed, now) },
		"attempting": func(*machine) {},
		"up":         func(m *machine) { m.step(inConnected, now) },
		"slow probe": func(m *machine) {
			at := now
			drive(m, &at, 5)
			m.step(inFailed, at)
		},
		"needs auth": func(m *machine) { m.step(inRefused, now) },
		"stopping":   func(m *machine) { m.step(inConnected, now); m.step(inLost, now) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(policy, half, now)
			m.step(inEnabled, now)
			prepare(m)
			got := m.step(inReconnect, now)
			if m.phase == stopping {
				got = m.step(inStopped, now)
			}
			if got != doAttempt || m.state != status.Connecting || m.attempt != 0 {
				t.Errorf("state %s, attempt %d, action %d", m.state, m.attempt, got)
			}
		})
	}
}

func TestMachineDisableDuringAnAttempt(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(testPolicy(), half, now)
	m.step(inEnabled, now)
	if m.step(inDisabled, now) != doStop || m.state != status.Disabled {
		t.Fatalf("disabling: %s", m.state)
	}
	if m.step(inEnabled, now) != doNothing {
		t.Fatal("an attempt began beside the one that is being cancelled")
	}
	if m.step(inStopped, now) != doAttempt || m.state != status.Connecting {
		t.Fatalf("enabled again: %s", m.state)
	}
}

func TestMachineNeedsAuthTriesOnceAnHourAndDoesNotWake(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(testPolicy(), half, now)
	m.step(inEnabled, now)
	m.step(inRefused, now)
	if m.state != status.NeedsAuth || m.wakeAt.Sub(now) != time.Hour {
		t.Fatalf("state %s, next try in %s", m.state, m.wakeAt.Sub(now))
	}
	if m.step(inWake, now.Add(time.Minute)) != doNothing {
		t.Error("a call woke a server that waits for a log-in")
	}
	if m.step(inTimer, now.Add(time.Hour)) != doAttempt || m.state != status.NeedsAuth {
		t.Errorf("after an hour: %s", m.state)
	}
}

func TestMachineWakesAtMostOnceInFiveSeconds(t *testing.T) {
	now := time.Unix(1000, 0)
	policy := testPolicy()
	policy.InitialDelay, policy.MaxDelay = time.Minute, time.Minute
	m := newMachine(policy, half, now)
	m.step(inEnabled, now)
	m.step(inFailed, now)
	if m.step(inWake, now) != doAttempt {
		t.Fatal("the first wake-up did nothing")
	}
	m.step(inFailed, now)
	if m.step(inWake, now.Add(time.Second)) != doNothing {
		t.Error("a second wake-up within the interval acted at once")
	}
	if got := m.wakeAt.Sub(now); got != wakeInterval {
		t.Errorf("it brought the next try to %s after the last wake-up, want %s", got, wakeInterval)
	}
	if m.step(inTimer, now.Add(wakeInterval)) != doAttempt {
		t.Error("the try that was brought forward did not begin")
	}
}

func TestMachineHeedsRetryAfter(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMachine(testPolicy(), half, now)
	m.step(inEnabled, now)
	m.hold(90*time.Second, now)
	m.step(inFailed, now)
	if got := m.wakeAt.Sub(now); got != 90*time.Second {
		t.Errorf("next try after %s", got)
	}
	if m.step(inWake, now.Add(time.Second)) != doNothing || m.wakeAt.Sub(now) != 90*time.Second {
		t.Errorf("a call brought the try forward to %s", m.wakeAt.Sub(now))
	}
	if m.step(inReconnect, now.Add(time.Second)) != doAttempt {
		t.Error("a person's Reconnect did not act at once")
	}
	m.step(inFailed, now.Add(time.Second))
	if got := m.wakeAt.Sub(now); got != 2*time.Second {
		t.Errorf("after a Reconnect the hold lasts on: next try after %s", got)
	}
	m.hold(1000*time.Hour, now)
	m.step(inTimer, m.wakeAt)
	m.step(inFailed, now.Add(2*time.Second))
	if got := m.wakeAt.Sub(now); got != maxHold {
		t.Errorf("a server put itself off by %s", got)
	}
}

// The state of a crash loop is told as such, and ends with the first stable life.
func TestC83_CrashLoopIsToldAndSlowedDown(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(testPolicy(), half, now)
	m.step(inEnabled, now)
	lives := func(n int, length time.Duration) {
		for range n {
			m.step(inConnected, now)
			now = now.Add(length)
			m.step(inLost, now)
			m.step(inStopped, now)
			now = m.wakeAt
			m.step(inTimer, now)
		}
	}
	lives(2, 2*time.Second)
	if m.looping() {
		t.Error("two short lives are told as a crash loop")
	}
	began := now
	lives(10, 2*time.Second)
	if !m.looping() || m.shortLives != 12 || m.state != status.SlowProbe {
		t.Errorf("after 12 short lives: looping %v, %d lives, state %s", m.looping(), m.shortLives, m.state)
	}
	if took := now.Sub(began); took < 8*time.Minute {
		t.Errorf("ten restarts within %s", took)
	}
	lives(1, time.Minute)
	if m.looping() || m.shortLives != 0 {
		t.Errorf("a stable life did not end the loop: %d", m.shortLives)
	}
}

func TestJitterStaysInItsShareAndComesAfterTheCap(t *testing.T) {
	policy := testPolicy()
	policy.Jitter = 0.25
	for random, want := range map[float64]time.Duration{
		0: 2250 * time.Millisecond, 0.5: 3 * time.Second, math.Nextafter(1, 0): 3750 * time.Millisecond,
	} {
		m := newMachine(policy, func() float64 { return random }, time.Unix(0, 0))
		m.attempt = 40
		if got := m.delay(); (got - want).Abs() > time.Millisecond {
			t.Errorf("random %v: %s, want %s", random, got, want)
		}
	}
}

// A day against a server that refuses its connections: the rate is polite. With
// refused credentials it is slower by far.
func TestC76_DeadServerIsTriedOncePerMinute(t *testing.T) {
	policy := config.Reconnect{
		Enabled: true, MaxAttempts: 10, InitialDelay: time.Second, BackoffMultiplier: 2, MaxDelay: time.Minute,
		Jitter: 0.25, SlowProbeInterval: time.Minute, StableAfter: time.Minute,
	}
	for _, test := range []struct {
		name            string
		outcome         input
		least, most     int
		longest, closer time.Duration
	}{
		{"refused connections", inFailed, 1400, 1475, 75 * time.Second, 0},
		{"refused credentials", inRefused, 18, 30, 75 * time.Minute, time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			var days []int
			for seed := range uint64(20) {
				random := rand.New(rand.NewPCG(seed, 1))
				now := time.Unix(0, 0)
				m := newMachine(policy, random.Float64, now)
				m.step(inEnabled, now)
				attempts := 1
				for end := now.Add(24 * time.Hour); ; attempts++ {
					m.step(test.outcome, now)
					if delay := m.wakeAt.Sub(now); delay > test.longest || delay < test.closer {
						t.Fatalf("a delay of %s", delay)
					}
					if now = m.wakeAt; !now.Before(end) {
						break
					}
					if m.step(inTimer, now) != doAttempt {
						t.Fatal("no attempt at its time")
					}
				}
				days = append(days, attempts)
			}
			slices.Sort(days)
			median := days[len(days)/2]
			t.Logf("requests in a day: %d (median of 20 seeds; %d to %d)", median, days[0], days[len(days)-1])
			if median < test.least || median > test.most {
				t.Errorf("%d attempts in a day, want %d to %d", median, test.least, test.most)
			}
		})
	}
}

// checkWakeUp is invariant 2: exactly one thing will move a machine that is not at
// rest, and only the states disabled and invalid rest.
func checkWakeUp(t *testing.T, m *machine, open int) {
	t.Helper()
	rests := m.state == status.Disabled || m.state == status.Invalid
	switch m.phase {
	case resting:
		if !rests || open != 0 {
			t.Fatalf("resting in state %s with %d attempts or connections", m.state, open)
		}
	case waiting:
		if rests || m.wakeAt.IsZero() || open != 0 {
			t.Fatalf("waiting in state %s, timer %v, %d open", m.state, m.wakeAt, open)
		}
	case attempting, up:
		if rests || open != 1 {
			t.Fatalf("phase %d in state %s with %d open", m.phase, m.state, open)
		}
	case stopping:
		if open != 1 {
			t.Fatalf("stopping with %d open", open)
		}
	}
}

// FuzzMachine feeds random inputs, as an owner could meet them, and checks after
// each that one wake-up is armed and at most one attempt or connection is open.
func FuzzMachine(f *testing.F) {
	f.Add([]byte{0, 7, 9, 10, 5, 6, 3, 1, 10, 0})
	f.Add([]byte{0, 8, 8, 5, 8, 5, 8, 5, 4, 3, 10})
	f.Fuzz(live)
}

// Invariant 2: every state but disabled, idle and invalid has exactly one wake-up
// armed, whatever happens in whatever order.
func TestInvariant2_ExactlyOneWakeUpIsArmed(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		inputs := make([]byte, 60)
		for i := range inputs {
			inputs[i] = byte(random.Uint32())
		}
		live(t, inputs)
	}
}

// live lets a machine live through inputs as its owner could meet them.
func live(t *testing.T, inputs []byte) {
	now := time.Unix(0, 0)
	m := newMachine(testPolicy(), half, now)
	open := 0
	for _, b := range inputs {
		in := input(b % byte(inTouched+1))
		now = now.Add(time.Duration(b/12) * time.Second)
		if b > 230 && m.phase == attempting { // its failure asks for time
			m.hold(time.Duration(b)*time.Minute, now)
		}
		switch in { // what the world does only when it can
		case inTimer:
			now = maxTime(now, m.wakeAt)
		case inConnected, inFailed, inRefused:
			if m.phase != attempting {
				continue
			}
			if in != inConnected {
				open = 0
			}
		case inLost:
			if m.phase != up {
				continue
			}
		case inStopped:
			if m.phase != stopping {
				continue
			}
			open = 0
		case inEnabled, inDisabled, inInvalid, inReconnect, inWake, inTouched:
		}
		if in == inReconnect && (m.state == status.Disabled || m.state == status.Invalid) {
			continue // its owner does not pass that on
		}
		woken := m.lastWake
		if m.step(in, now); in == inTouched && m.lastWake != woken && now.Sub(woken) < wakeInterval && !woken.IsZero() {
			t.Fatalf("a touched file acted %s after the last wake-up", now.Sub(woken))
		}
		if acted := m.phase == attempting && open == 0; acted {
			if in == inWake && now.Before(m.held) {
				t.Fatalf("an automatic wake-up did not heed Retry-After")
			}
			open++
		}
		checkWakeUp(t, m, open)
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Every state stands in the drawing of the package comment.
func TestDrawingShowsEveryState(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range status.States() {
		if !strings.Contains(string(text), string(state)) {
			t.Errorf("state %s is not in the drawing", state)
		}
	}
}
