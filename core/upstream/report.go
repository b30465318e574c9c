package upstream

import (
	"errors"
	"strings"
	"time"

	"mcp-funnel/core/status"
)

// publish tells the world what a step changed. before is the machine as it was.
func (u *Upstream) publish(before machine, in input) {
	m := u.machine
	switch m.state {
	case status.Invalid:
		if u.entry.Problem != nil {
			u.facts = facts{lastError: u.entry.Problem.String()}
		}
		u.settle()
	case status.Disabled:
		u.facts = facts{}
		u.settle()
	case status.Idle, status.Connecting, status.Connected, status.Reconnecting, status.SlowProbe, status.NeedsAuth:
	}
	u.show()
	visible := func(s status.State) bool { return s != status.Disabled && s != status.Invalid }
	if visible(before.state) != visible(m.state) {
		u.deps.Changed()
	}
	switch m.state {
	case status.Disabled, status.Invalid, status.NeedsAuth:
		u.failParked()
	case status.Idle, status.Connecting, status.Connected, status.Reconnecting, status.SlowProbe:
	}
	if event, ok := u.eventOf(before, in); ok {
		u.announce(event)
	}
}

// introduce puts a server on the board that Run will start, so that it has its
// place there from the beginning.
func (u *Upstream) introduce() {
	state := status.Connecting
	switch u.wish() {
	case inDisabled:
		state = status.Disabled
	case inInvalid:
		state = status.Invalid
	default:
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.shown = status.Server{
		Name: u.name, State: state, Since: status.At(u.machine.since), Transport: string(u.entry.Type),
		MaxAttempts: u.machine.policy.MaxAttempts, Enabled: u.on && u.entry.Enabled, Instances: []status.Instance{},
		Tools: len(u.lists.Tools), Prompts: len(u.lists.Prompts), Resources: len(u.lists.Resources), Stale: !u.lists.Empty(),
	}
	u.deps.Board.SetServer(u.shown)
}

// show puts the present status on the board.
func (u *Upstream) show() {
	m := u.machine
	u.mu.Lock()
	defer u.mu.Unlock()
	s := status.Server{
		Name:            u.name,
		State:           m.state,
		Since:           status.At(m.since),
		Transport:       string(u.entry.Type),
		MaxAttempts:     m.policy.MaxAttempts,
		LastError:       u.facts.lastError,
		StderrTail:      u.facts.stderrTail,
		Restarts:        u.facts.restarts,
		PID:             u.facts.pid,
		ProtocolVersion: u.facts.version,
		Tools:           len(u.lists.Tools),
		Prompts:         len(u.lists.Prompts),
		Resources:       len(u.lists.Resources),
		Stale:           m.state != status.Connected && !u.lists.Empty(),
		Enabled:         u.on && u.entry.Enabled,
		Instances:       []status.Instance{},
	}
	switch m.state {
	case status.Reconnecting:
		s.Attempt = m.attempt
	case status.SlowProbe:
		s.Attempt = m.probe
	case status.Disabled, status.Idle, status.Connecting, status.Connected, status.NeedsAuth, status.Invalid:
	}
	if m.phase == waiting || m.phase == stopping && m.next == goalWait {
		s.NextAttemptAt = status.At(m.wakeAt)
	}
	u.shown = s
	if !u.ended { // else its place on the board is given up already
		u.deps.Board.SetServer(s)
	}
}

// eventOf is the event that a step amounts to, if any.
func (u *Upstream) eventOf(before machine, in input) (status.Event, bool) {
	m := u.machine
	event := status.Event{Server: u.name, State: m.state, Error: u.facts.lastError}
	now := time.Now()
	ms := func(d time.Duration) *int64 { n := d.Milliseconds(); return &n }
	switch {
	case m.state == status.Connected && before.state != status.Connected:
		u.mu.Lock()
		tools := len(u.lists.Tools)
		u.mu.Unlock()
		event.Name, event.Error = status.EventConnected, ""
		event.PID, event.ProtocolVersion, event.Tools = u.facts.pid, u.facts.version, &tools
		if before.state.Down() {
			event.Restarts, event.DownMs = u.facts.restarts, ms(before.downFor(now))
		}
		if before.state == status.SlowProbe {
			recovered := status.Event{Name: status.EventSlowProbeRecovered, Server: u.name, State: m.state}
			recovered.DownMs = ms(before.downFor(now))
			u.announce(recovered)
		}
	case m.state == status.Connecting && (before.state != m.state || in == inReconnect):
		event.Name, event.Error = status.EventConnecting, ""
	case m.state == status.Reconnecting && (in == inFailed || in == inLost || in == inTouched && before.phase != waiting):
		event.Name = status.EventReconnecting
		event.Attempt, event.MaxAttempts = m.attempt, m.policy.MaxAttempts
		event.NextRetryMs = ms(m.wakeAt.Sub(now))
	case m.state == status.SlowProbe && before.state != status.SlowProbe:
		event.Name, event.ProbeIntervalMs = status.EventSlowProbeStarted, ms(m.policy.SlowProbeInterval)
	case m.state == status.SlowProbe && in == inFailed:
		event.Name, event.N = status.EventSlowProbeAttempt, m.probe
	case m.state == status.NeedsAuth && before.state != m.state:
		event.Name = status.EventNeedsAuth
	case m.state == status.Invalid && in == inInvalid:
		event.Name = status.EventInvalid
	case m.state == status.Disabled && before.state != m.state:
		event.Name, event.Error = status.EventDisabled, ""
	default:
		return event, false
	}
	return event, true
}

// announceLoss tells that a connection broke, and why.
func (u *Upstream) announceLoss(err error) {
	event := status.Event{
		Name: status.EventDisconnected, Server: u.name, State: u.machine.state,
		Reason: err.Error(), StderrTail: u.facts.stderrTail,
	}
	var exit *ExitError
	if errors.As(err, &exit) && exit.Code >= 0 {
		event.ExitCode = &exit.Code
	}
	u.announce(event)
}

// announce publishes an event and logs it: the same failure again only for those
// who debug.
func (u *Upstream) announce(event status.Event) {
	u.deps.Events.Publish(event)
	if u.deps.Note != nil {
		u.deps.Note(u.name, strings.TrimSpace(event.Name+" "+event.Error+event.Reason))
	}
	attrs := []any{"event", event.Name, "server", event.Server, "state", event.State}
	if text := event.Error + event.Reason; text != "" {
		attrs = append(attrs, "err", text)
	}
	switch event.Name {
	case status.EventReconnecting:
		attrs = append(attrs, "attempt", event.Attempt, "nextRetryMs", *event.NextRetryMs)
	case status.EventConnected:
		attrs = append(attrs, "pid", event.PID, "restarts", event.Restarts)
		if event.DownMs != nil {
			attrs = append(attrs, "downMs", *event.DownMs)
		}
	case status.EventSlowProbeAttempt:
		u.deps.Log.Debug("server", append(attrs, "n", event.N)...)
		return
	}
	u.deps.Log.Info("server", attrs...)
}
