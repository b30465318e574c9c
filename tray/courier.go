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
	c.waiting = slices.DeleteFunc(c.waiting, func(other Notice) bool {
		dead := other.Title != "" && (other.Key == n.Key || slices.Contains(n.Closes, other.Key))
		if dead {
			n.Closes = append(slices.Clone(n.Closes), other.Closes...)
		}
		return dead
	})
	if len(c.waiting) == noticesWaiting {
		c.waiting = slices.Delete(c.waiting, 0, 1)
	}
	c.waiting = append(c.waiting, n)
	select {
	case c.wake <- struct{}{}:
	default:
	}
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
