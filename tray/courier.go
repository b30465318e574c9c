package tray

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"mcp-funnel/core/status"
)

const (
	// noticesWaiting bounds the queue; the oldest is dropped for a new one.
	noticesWaiting = 16
	// noticeDeadline is how long a notification server may take for one.
	noticeDeadline = 2 * time.Second
)

// courier takes notices from whoever must not wait and brings them to the
// notifier one after another.
type courier struct {
	notifier Notifier
	events   *status.Events
	log      *slog.Logger
	// wake has a token when notices may be waiting.
	wake chan struct{}

	mu      sync.Mutex
	waiting []Notice // oldest first; of those with a title one for each key
}

func newCourier(notifier Notifier, events *status.Events, log *slog.Logger) *courier {
	return &courier{notifier: notifier, events: events, log: log, wake: make(chan struct{}, 1)}
}

// post queues n and never blocks. A notice that still waits is out of date where n
// has the same key or closes it, and makes room; what it was to close n closes.
func (c *courier) post(n Notice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	closes := slices.Clone(n.Closes)
	var alive []Notice
	for i, other := range c.waiting {
		if other.Title == "" || other.Key != n.Key && !slices.Contains(n.Closes, other.Key) {
			alive = append(alive, other)
			continue
		}
		for _, key := range other.Closes {
			if !shows(c.waiting[i+1:], key) {
				closes = append(closes, key)
			}
		}
	}
	n.Closes = closes
	c.waiting = dropOldest(append(alive, n))
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// shows reports whether one of notices is to be shown with that key: it is newer than
// what was to be closed.
func shows(notices []Notice, key string) bool {
	return slices.ContainsFunc(notices, func(n Notice) bool { return n.Title != "" && n.Key == key })
}

// dropOldest makes room. The notice after it closes what it was to close, and what it
// was to replace, which is out of date.
func dropOldest(waiting []Notice) []Notice {
	if len(waiting) <= noticesWaiting {
		return waiting
	}
	oldest, next := waiting[0], &waiting[1]
	next.Closes = slices.Concat(oldest.Closes, next.Closes)
	if oldest.Title != "" {
		next.Closes = append(next.Closes, oldest.Key)
	}
	return waiting[1:]
}

func (c *courier) take() (Notice, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		return Notice{}, false
	}
	n := c.waiting[0]
	c.waiting = slices.Delete(c.waiting, 0, 1)
	return n, true
}

// run delivers until ctx ends.
func (c *courier) run(ctx context.Context) {
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		for n, ok := c.take(); ok && ctx.Err() == nil; n, ok = c.take() {
			failed = c.deliver(ctx, n, failed)
		}
	}
}

// deliver shows one notice and reports whether that failed. Only the first of
// several failures in a row is worth a warning.
func (c *courier) deliver(ctx context.Context, n Notice, failedBefore bool) bool {
	ctx, cancel := context.WithTimeout(ctx, noticeDeadline)
	defer cancel()
	err := c.notifier.Notify(ctx, n)
	if err == nil && n.Title == "" {
		return failedBefore
	}
	if err == nil {
		c.events.Publish(status.Event{
			Name: status.EventNotificationSent, Server: n.Server, State: n.State, Title: n.Title,
		})
		return false
	}
	level := slog.LevelWarn
	if failedBefore {
		level = slog.LevelDebug
	}
	c.log.Log(ctx, level, "notification not shown", "server", n.Server, "err", err)
	return true
}
