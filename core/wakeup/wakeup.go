package wakeup

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Cause says why servers are worth another look.
type Cause string

const (
	// Resumed means that the machine was asleep, or its clock was set forward.
	Resumed Cause = "resume"
	// NetworkBack means that an interface has got an address that it did not have.
	NetworkBack Cause = "network"
)

const (
	// compareOften is how often the clocks are compared where nobody else tells of
	// a resume. Each time costs some ten context switches, Go's own included:
	// more often, and an idle app would no longer be idle.
	compareOften = 30 * time.Second
	// compareRarely is for sleep that logind, although there, does not know of,
	// such as that of a virtual machine.
	compareRarely = 5 * time.Minute
	// quiet is how long no address may come until a burst of them has settled:
	// longer than IPv6 takes for its own addresses after those of IPv4.
	quiet = 2 * time.Second
	// longestBurst is how long a report is put off at most.
	longestBurst = 5 * time.Second
)

// Options is what a [Watcher] needs; every field must be set.
type Options struct {
	// Environ looks up variables like [os.Getenv]; of them DBUS_SYSTEM_BUS_ADDRESS
	// is used.
	Environ func(string) string
	// Log is told, at debug level, which sources are missing.
	Log *slog.Logger
}

// event is what a source has to say.
type event int

const (
	resumeTold   event = iota // the machine has resumed
	addressFound              // an interface has a new address
	logindFound               // from now on resumes are told
	logindLost                // from now on they are not
)

// source calls report for what it sees until ctx ends. An error says why it
// cannot, or can no longer.
type source func(ctx context.Context, report func(event)) error

// Watcher watches for resumes and for the network.
type Watcher struct {
	log     *slog.Logger
	clock   clock
	often   time.Duration // see compareOften
	sources []source
}

// New returns a watcher that watches once it runs.
func New(o Options) *Watcher {
	return &Watcher{
		log:     o.Log,
		clock:   systemClock(),
		often:   compareOften,
		sources: []source{newLogind(o).follow, followNetwork},
	}
}

// Run calls notify for whatever makes servers worth another look until ctx ends,
// and then returns nil. notify must not block. A source that is missing is
// logged once, at debug level, and left out.
func (w *Watcher) Run(ctx context.Context, notify func(Cause)) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	news := make(chan event)
	report := func(e event) {
		select {
		case news <- e:
		case <-ctx.Done():
		}
	}
	for _, follow := range w.sources {
		running.Go(func() {
			if err := follow(ctx, report); err != nil && ctx.Err() == nil {
				w.log.Debug("a source of wake-ups is left out", "err", err)
			}
		})
	}
	w.gather(ctx, news, notify)
	return nil
}

// gather makes one report of what belongs together until ctx ends.
func (w *Watcher) gather(ctx context.Context, news <-chan event, notify func(Cause)) {
	tick := time.NewTicker(w.often)
	defer tick.Stop()
	settled := time.NewTimer(longestBurst)
	settled.Stop()
	defer settled.Stop()
	sleeps := newSleeps(w.clock)
	var addresses burst
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if sleeps.jumped() {
				notify(Resumed)
			}
		case e := <-news:
			switch e {
			case resumeTold:
				if sleeps.told() {
					notify(Resumed)
				}
			case addressFound:
				settled.Reset(addresses.grow(time.Now()))
			case logindFound:
				tick.Reset(compareRarely)
			case logindLost:
				tick.Reset(w.often)
			}
		case <-settled.C:
			addresses = burst{}
			notify(NetworkBack)
		}
	}
}

// burst is a number of events that count as one.
type burst struct {
	begun time.Time // zero: there was none yet
}

// grow adds an event and returns how long to wait for the next.
func (b *burst) grow(now time.Time) time.Duration {
	if b.begun.IsZero() {
		b.begun = now
	}
	return min(quiet, longestBurst-now.Sub(b.begun))
}
