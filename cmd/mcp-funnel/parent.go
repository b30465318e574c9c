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
