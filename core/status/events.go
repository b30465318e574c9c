package status

import (
	"context"
	"sync"
	"time"
)

// Event is one thing that happened. Its JSON form is a line of
// `mcp-funnel events --json`; which of the optional fields are set depends on
// Name: see the names below.
type Event struct {
	Name   string `json:"event"`
	Server string `json:"server,omitempty"`
	// Instance is the folder or the session of a server's instance, where it has several.
	Instance string `json:"instance,omitempty"`
	Time     Time   `json:"time"`
	State    State  `json:"state,omitempty"`

	PID             int    `json:"pid,omitempty"`
	ProtocolVersion string `json:"protocolVersion,omitempty"`
	Tools           *int   `json:"tools,omitempty"`

	Reason     string `json:"reason,omitempty"`
	ExitCode   *int   `json:"exitCode,omitempty"`
	StderrTail string `json:"stderrTail,omitempty"`

	Attempt         int    `json:"attempt,omitempty"`
	MaxAttempts     int    `json:"maxAttempts,omitempty"`
	NextRetryMs     *int64 `json:"nextRetryMs,omitempty"`
	ProbeIntervalMs *int64 `json:"probeIntervalMs,omitempty"`
	N               int    `json:"n,omitempty"`
	DownMs          *int64 `json:"downMs,omitempty"`
	Restarts        int    `json:"restarts,omitempty"`
	Error           string `json:"error,omitempty"`

	Session string  `json:"session,omitempty"`
	Client  *Client `json:"client,omitempty"`

	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Changed []string `json:"changed,omitempty"`

	Message string `json:"message,omitempty"`
	Title   string `json:"title,omitempty"`
}

// Names of events, and what each sets besides Time; those of a server set Server
// and State as well.
const (
	EventConnecting         = "server.connecting"
	EventConnected          = "server.connected"            // PID, ProtocolVersion, Tools; of a later one Restarts and DownMs
	EventDisconnected       = "server.disconnected"         // Reason, perhaps ExitCode and StderrTail
	EventReconnecting       = "server.reconnecting"         // Attempt, MaxAttempts, NextRetryMs, Error
	EventSlowProbeStarted   = "server.slow_probe_started"   // ProbeIntervalMs, Error
	EventSlowProbeAttempt   = "server.slow_probe_attempt"   // N, Error
	EventSlowProbeRecovered = "server.slow_probe_recovered" // DownMs
	EventNeedsAuth          = "server.needs_auth"           // Error
	EventInvalid            = "server.invalid"              // Error
	EventDisabled           = "server.disabled"
	EventSessionAttached    = "session.attached"  // Session, Client, PID
	EventSessionDetached    = "session.detached"  // Session
	EventConfigReloaded     = "config.reloaded"   // Added, Removed, Changed
	EventConfigError        = "config.error"      // Message
	EventNotificationSent   = "notification.sent" // Title
)

// Events is a ring of the newest events. Its zero value is not usable; make
// one with [NewEvents].
type Events struct {
	now func() time.Time

	mu      sync.Mutex
	ring    []Event
	total   uint64 // events ever published; the newest has this number
	changed chan struct{}
}

// NewEvents returns a ring that keeps the last size events. A nil now means
// time.Now.
func NewEvents(size int, now func() time.Time) *Events {
	if now == nil {
		now = time.Now
	}
	return &Events{now: now, ring: make([]Event, size), changed: make(chan struct{})}
}

// Publish adds an event; a zero Time is filled in. It never blocks.
func (e *Events) Publish(event Event) {
	if event.Time.IsZero() {
		event.Time = At(e.now())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ring[e.total%uint64(len(e.ring))] = event
	e.total++
	close(e.changed)
	e.changed = make(chan struct{})
}

// Last returns the number of the newest event, 0 before the first.
func (e *Events) Last() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.total
}

// Next blocks until there are events after number after and returns them, the
// number of the last one, and how many were overwritten before they could be
// read. It fails only with the context's cause.
func (e *Events) Next(ctx context.Context, after uint64) (events []Event, last uint64, lost uint64, err error) {
	for {
		e.mu.Lock()
		total, changed := e.total, e.changed
		if total > after {
			events, lost = e.since(after)
			e.mu.Unlock()
			return events, total, lost, nil
		}
		e.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, after, 0, context.Cause(ctx)
		}
	}
}

// since copies the events after number after. e.mu is held.
func (e *Events) since(after uint64) (events []Event, lost uint64) {
	size := uint64(len(e.ring))
	if e.total-after > size {
		lost = e.total - after - size
		after = e.total - size
	}
	for i := after; i < e.total; i++ {
		events = append(events, e.ring[i%size])
	}
	return events, lost
}
