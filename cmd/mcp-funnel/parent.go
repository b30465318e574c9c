package main

import (
	"context"
	"os"
	"time"
)

// parentCheck is how often a bridge looks whether its client still lives, where the
// system does not tell: when a sibling holds the pipe, its end is not seen there.
const parentCheck = 5 * time.Second

// watchParent ends the bridge when the process that started it is gone, whoever is its
// parent then.
func watchParent(ctx context.Context, gone context.CancelFunc) {
	parent := os.Getppid()
	if awaitExit(ctx, parent) {
		gone()
		return
	}
	tick := time.NewTicker(parentCheck)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if os.Getppid() != parent {
				gone()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// readerCheck is how often a bridge looks whether its client still reads. Whoever only
// closes that end says nothing else.
const readerCheck = 10 * time.Second

// watchReader ends the bridge when nobody can read any more what it writes.
func watchReader(ctx context.Context, out *os.File, gone context.CancelFunc) {
	tick := time.NewTicker(readerCheck)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if nobodyReads(out) {
				gone()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
