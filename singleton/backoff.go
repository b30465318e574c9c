package singleton

import (
	"context"
	"time"
)

// backoff is a delay that doubles up to a limit.
type backoff struct {
	next, most time.Duration
}

// pause waits for the next delay; it reports false when done was closed first.
func (b *backoff) pause(done <-chan struct{}) bool {
	timer := time.NewTimer(b.next)
	defer timer.Stop()
	b.next = min(2*b.next, b.most)
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}

// until calls try with growing pauses until it reports true or fails, or ctx
// ends, whose cause is then the error.
func (b backoff) until(ctx context.Context, try func() (bool, error)) error {
	for {
		if done, err := try(); done || err != nil {
			return err
		}
		if !b.pause(ctx.Done()) {
			return context.Cause(ctx)
		}
	}
}
