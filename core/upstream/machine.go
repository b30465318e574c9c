package upstream

import (
	"math"
	"time"

	"mcp-funnel/core/config"
	"mcp-funnel/core/status"
)

// Times that are not configurable.
const (
	// quickRetry is the delay before the first attempt after a stable connection
	// was lost: most often the server was just restarted.
	quickRetry = 100 * time.Millisecond
	// authInterval is how often, at most, a server that refuses our credentials is
	// tried.
	authInterval = time.Hour
	// maxHold bounds what a server can ask for with Retry-After.
	maxHold = time.Hour
	// wakeInterval is the least time between two automatic wake-ups.
	wakeInterval = 5 * time.Second
	// crashLoop is how many short lives in a row make one.
	crashLoop = 3
)

// phase says what will move the machine next. Exactly one thing will.
type phase uint8

const (
	// resting: only the user. States disabled and invalid.
	resting phase = iota
	// waiting: the timer at wakeAt.
	waiting
	// attempting: the end of the attempt under way.
	attempting
	// up: the loss of the connection.
	up
	// stopping: the end of closing the connection, or of cancelling the attempt.
	stopping
)

// goal is what follows when stopping is over.
type goal uint8

const (
	// goalRest: stay off.
	goalRest goal = iota
	// goalAttempt: begin afresh at once.
	goalAttempt
	// goalWait: try again at wakeAt.
	goalWait
)

// input is something that happens to a machine.
type input uint8

const (
	// inEnabled and inDisabled: the user's wish, or the first input of all.
	inEnabled input = iota
	inDisabled
	// inInvalid: the entry in the config is wrong.
	inInvalid
	// inReconnect: a person wants it now, or the entry changed.
	inReconnect
	// inWake: an automatic wake-up, such as a call to one of its tools.
	inWake
	// inTimer: wakeAt is reached.
	inTimer
	// inConnected, inFailed and inRefused end an attempt; refused means 401 or 403.
	inConnected
	inFailed
	inRefused
	// inLost: the connection is over, but not yet closed.
	inLost
	// inStopped: closing, or the cancelled attempt, is over and nothing is left.
	inStopped
	// inTouched: a file that the server is made of changed.
	inTouched
)

// action is what the owner of a machine has to do after a step.
type action uint8

const (
	// doNothing, apart from setting the timer when the phase is waiting.
	doNothing action = iota
	// doAttempt: begin an attempt; inConnected, inFailed or inRefused follow.
	doAttempt
	// doStop: close the connection or cancel the attempt; inStopped follows.
	doStop
)

// machine is the state of one server and the rules by which it changes. It does
// no I/O and knows no clock but the one it is shown.
type machine struct {
	policy config.Reconnect
	// random returns a number in [0, 1), for jitter.
	random func() float64

	phase phase
	// state is what the world is told.
	state status.State
	// since is when state was entered.
	since time.Time
	// wakeAt is when the timer fires, in phase waiting or on the way there. woken:
	// an automatic wake-up put it there.
	wakeAt time.Time
	woken  bool
	// next is what follows phase stopping.
	next goal
	// attempt counts the attempts since the counter was reset, the one planned or
	// under way included; probe counts those of the present slow probe.
	attempt, probe int
	// quick: the first of the attempts came after quickRetry and does not count
	// for the growth of the delay.
	quick bool
	// connectedAt and downSince are the last time it came up and went down.
	connectedAt, downSince time.Time
	// lastWake is when an automatic wake-up last had an effect.
	lastWake time.Time
	// held is the moment before which the server asked not to be tried again; only
	// a person may. Zero when it did not ask.
	held time.Time
	// shortLives counts the connections in a row that were lost before they were
	// stable.
	shortLives int
	// connections counts how often it came up.
	connections int
}

// newMachine returns a machine at rest in state disabled.
func newMachine(policy config.Reconnect, random func() float64, now time.Time) *machine {
	return &machine{policy: policy, random: random, state: status.Disabled, since: now}
}

// step changes the machine by one input and says what to do.
func (m *machine) step(in input, now time.Time) action {
	switch in {
	case inEnabled:
		return m.enabled(now)
	case inDisabled:
		return m.rest(status.Disabled, now)
	case inInvalid:
		return m.rest(status.Invalid, now)
	case inReconnect:
		return m.restart(now)
	case inWake:
		return m.wake(now)
	case inTouched:
		return m.touched(now)
	case inTimer:
		return m.timer(now)
	case inConnected, inFailed, inRefused:
		return m.attempted(in, now)
	case inLost:
		return m.lost(now)
	case inStopped:
		return m.stopped(now)
	}
	return doNothing
}

// enter changes the public state.
func (m *machine) enter(state status.State, now time.Time) {
	if m.state != state {
		m.state, m.since = state, now
	}
}

// enabled starts a machine at rest; any other one runs already, or will.
func (m *machine) enabled(now time.Time) action {
	if m.phase == resting || m.phase == stopping && m.next == goalRest {
		return m.restart(now)
	}
	return doNothing
}

// rest brings the machine to rest in state, by way of stopping what runs.
func (m *machine) rest(state status.State, now time.Time) action {
	m.enter(state, now)
	m.resetCounters()
	switch m.phase {
	case attempting, up:
		m.phase, m.next = stopping, goalRest
		return doStop
	case stopping:
		m.next = goalRest
	case resting, waiting:
		m.phase = resting
	}
	return doNothing
}

// restart begins afresh at once, whatever runs.
func (m *machine) restart(now time.Time) action {
	m.resetCounters()
	m.enter(status.Connecting, now)
	switch m.phase {
	case attempting, up:
		m.phase, m.next = stopping, goalAttempt
		return doStop
	case stopping:
		m.next = goalAttempt
		return doNothing
	case resting, waiting:
	}
	m.phase = attempting
	return doAttempt
}

// touched restarts a server that runs with what it is made of now, at most as often as
// servers are woken, and counts that as an attempt: one that writes into its own folder
// ends in the slow probe.
func (m *machine) touched(now time.Time) action {
	switch {
	case m.state == status.NeedsAuth:
		return doNothing
	case m.phase != attempting && m.phase != up:
		return m.wake(now)
	case m.phase == up:
		m.downSince = now
		if now.Sub(m.connectedAt) >= m.policy.StableAfter {
			m.resetCounters()
		}
	}
	m.phase = stopping
	if earliest := m.lastWake.Add(wakeInterval); !m.lastWake.IsZero() && now.Before(earliest) {
		m.next = goalWait
		m.plan(false, now)
		if m.woken = true; m.wakeAt.Before(earliest) {
			m.wakeAt = earliest
		}
		return doStop
	}
	m.next, m.lastWake = goalAttempt, now
	m.attempt = min(m.attempt+1, m.policy.MaxAttempts)
	m.enter(status.Connecting, now)
	return doStop
}

func (m *machine) resetCounters() {
	m.attempt, m.probe, m.quick, m.shortLives = 0, 0, false, 0
	m.held = time.Time{}
}

// hold notes that the server asked not to be tried again for d. It comes before the
// inFailed it belongs to.
func (m *machine) hold(d time.Duration, now time.Time) {
	if d > 0 {
		m.held = now.Add(min(d, maxHold))
	}
}

// wake brings the next attempt forward: to now, or to when the next automatic
// wake-up may come. Servers that wait for a log-in do not wake: the same
// credentials would be refused again.
func (m *machine) wake(now time.Time) action {
	pending := m.phase == waiting || m.phase == stopping && m.next == goalWait
	if !pending || m.state == status.NeedsAuth {
		return doNothing
	}
	at := now
	if earliest := m.lastWake.Add(wakeInterval); !m.lastWake.IsZero() && at.Before(earliest) {
		at = earliest
	}
	if at.Before(m.held) {
		at = m.held
	}
	if m.wakeAt.After(at) {
		m.wakeAt, m.woken = at, true
	}
	return m.timer(now)
}

func (m *machine) timer(now time.Time) action {
	if m.phase != waiting || now.Before(m.wakeAt) {
		return doNothing
	}
	if m.woken {
		m.lastWake = now
	}
	m.phase = attempting
	return doAttempt
}

// attempted takes the outcome of an attempt. A cancelled attempt ends with
// inStopped instead.
func (m *machine) attempted(outcome input, now time.Time) action {
	if m.phase != attempting {
		return doNothing
	}
	if outcome == inConnected {
		m.phase, m.connectedAt, m.held = up, now, time.Time{}
		m.connections++
		m.enter(status.Connected, now)
		return doNothing
	}
	if m.downSince.IsZero() || m.downSince.Before(m.connectedAt) {
		m.downSince = now
	}
	m.phase = waiting
	m.plan(outcome == inRefused, now)
	return doNothing
}

// lost plans the next attempt; it cannot begin before the old connection is
// closed.
func (m *machine) lost(now time.Time) action {
	if m.phase != up {
		return doNothing
	}
	m.downSince = now
	if stable := now.Sub(m.connectedAt) >= m.policy.StableAfter; stable {
		m.resetCounters()
		m.quick = true
	} else {
		m.shortLives++
	}
	m.phase, m.next = stopping, goalWait
	m.plan(false, now)
	return doStop
}

func (m *machine) stopped(now time.Time) action {
	if m.phase != stopping {
		return doNothing
	}
	switch m.next {
	case goalAttempt:
		m.phase = attempting
		return doAttempt
	case goalWait:
		m.phase = waiting
		return m.timer(now)
	case goalRest:
		m.phase = resting
	}
	return doNothing
}

// looping reports whether the server comes up only to be lost again.
func (m *machine) looping() bool { return m.shortLives >= crashLoop }

// plan sets the state and the time of the next attempt after a failure.
func (m *machine) plan(refused bool, now time.Time) {
	m.woken = false
	switch {
	case refused:
		m.enter(status.NeedsAuth, now)
		// Jitter only lengthens it: accounts were suspended for less.
		m.wakeAt = now.Add(authInterval + time.Duration(float64(authInterval)*m.policy.Jitter*m.random()))
	case m.state != status.SlowProbe && m.policy.Enabled && m.attempt < m.policy.MaxAttempts:
		m.attempt++
		m.enter(status.Reconnecting, now)
		m.wakeAt = now.Add(m.delay())
	default:
		if m.state == status.SlowProbe {
			m.probe++
		} else {
			m.probe = 0
		}
		m.enter(status.SlowProbe, now)
		m.wakeAt = now.Add(m.jitter(m.policy.SlowProbeInterval))
	}
	if m.wakeAt.Before(m.held) {
		m.wakeAt = m.held
	}
}

// delay is the time before the attempt with number m.attempt.
func (m *machine) delay() time.Duration {
	exponent := m.attempt - 1
	if m.quick {
		if exponent == 0 {
			return quickRetry
		}
		exponent--
	}
	// A large exponent gives +Inf, which the cap takes care of.
	delay := float64(m.policy.InitialDelay) * math.Pow(m.policy.BackoffMultiplier, float64(exponent))
	return m.jitter(time.Duration(math.Min(delay, float64(m.policy.MaxDelay))))
}

// jitter spreads d by the configured share in both directions, so that many
// servers are not tried in step.
func (m *machine) jitter(d time.Duration) time.Duration {
	return d + time.Duration(float64(d)*m.policy.Jitter*(2*m.random()-1))
}

// downFor is how long the server was away when it came back at now.
func (m *machine) downFor(now time.Time) time.Duration {
	if m.downSince.IsZero() {
		return 0
	}
	return now.Sub(m.downSince)
}
