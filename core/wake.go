package core

import (
	"context"
	"sync"

	"mcp-funnel/core/environ"
	"mcp-funnel/core/wakeup"
)

// watchMachine has every server looked at when the machine wakes up, or the network is
// back.
func (f *Funnel) watchMachine(ctx context.Context) error {
	causes := make(chan wakeup.Cause, 1)
	var looking sync.WaitGroup
	defer looking.Wait()
	looking.Go(func() {
		for {
			select {
			case cause := <-causes:
				f.log.Info("looking at all servers", "cause", cause)
				f.supervisor.CheckAll(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	env := environ.New(f.options.Environ)
	watcher := wakeup.New(wakeup.Options{
		Environ: func(name string) string { value, _ := env.Lookup(name); return value },
		Log:     f.log,
	})
	return watcher.Run(ctx, func(cause wakeup.Cause) {
		select {
		case causes <- cause:
		default: // they are about to be looked at
		}
	})
}
