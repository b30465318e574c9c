package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/config"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

// Deps is what an [Upstream] needs from around it.
type Deps struct {
	// Open makes the opener of an entry. It is called for each attempt.
	Open func(entry config.Server) Opener
	// Self is how the funnel introduces itself to servers.
	Self mcp.Implementation
	// Board and Events are told of every change.
	Board  *status.Board
	Events *status.Events
	// Remembered gives the last good lists of an earlier life, if any.
	Remembered func(entry config.Server) Lists
	// Changed is called when the server's lists, or whether they are to be shown,
	// changed. It must not block.
	Changed func()
	// News takes the notifications of a server that belong to no request: changed
	// resources, its log, and what we do not know. The message is its own.
	News func(server string, m jsonrpc.Message)
	// Wanted says which of the server's resources clients subscribed to, by its own
	// URIs, and the log level they want, "" for none. It is asked for each new
	// connection.
	Wanted func(server string) (subscriptions []string, level string)
	// Note, if there is one, writes a remark into the server's own log.
	Note func(server, text string)
	// Log gets one line for a change of state.
	Log *slog.Logger
	// Random returns numbers in [0, 1) for jitter.
	Random func() float64
	// starts is shared by all servers; [NewSupervisor] and [New] see to it.
	starts *starts
}

// Upstream is one configured server. See the package comment for its life.
type Upstream struct {
	name string
	deps Deps
	// ordered has room for one token: there are orders.
	ordered chan struct{}
	// settled is closed when the first attempt is over, or none is wanted.
	settled chan struct{}

	// The fields up to mu belong to Run.
	entry   config.Server
	on      bool // the user did not switch it off
	machine *machine
	cancel  context.CancelCauseFunc // of the attempt under way
	live    *link                   // from connected until it is closed
	facts   facts
	results chan attemptResult
	closed  chan struct{}
	relists chan relistResult
	listing bool // a relist is under way
	health  health
	watch   watch
	urgent  bool // a person wants the next attempt at once
	work    sync.WaitGroup

	mu     sync.Mutex
	orders orders
	// link takes requests while the server is connected.
	link *link
	// parked requests wait for the server, in the order in which they came.
	parked []*Request
	// shown is what was last published.
	shown status.Server
	// lists are the last good ones, and listsOf is the fingerprint of the entry they
	// were read with.
	lists   Lists
	listsOf string
	// ended: it takes no requests any more and is not shown.
	ended bool
}

// orders are wishes that Run has not yet carried out. Newer ones replace older.
type orders struct {
	entry     *config.Server
	on        *bool
	reconnect bool
	// wake: a request waits for the server. check: it is worth a look. touched: a
	// file it is made of changed.
	wake, check, touched bool
}

// facts are the parts of the published status that are not the machine's.
type facts struct {
	lastError  string
	stderrTail string
	pid        int
	version    string
	has        kindSet
	restarts   int
}

// New returns an upstream for entry, at rest; on is false when the user switched
// it off. Run starts it.
func New(entry config.Server, on bool, deps Deps) *Upstream {
	if deps.starts == nil {
		deps.starts = newStarts()
	}
	u := &Upstream{
		name:    entry.Name,
		deps:    deps,
		entry:   entry,
		on:      on,
		machine: newMachine(entry.Reconnect, deps.Random, time.Now()),
		ordered: make(chan struct{}, 1),
		settled: make(chan struct{}),
		results: make(chan attemptResult, 1),
		closed:  make(chan struct{}, 1),
		relists: make(chan relistResult, 1),
		health:  newHealth(),
		lists:   deps.Remembered(entry),
		listsOf: entry.Fingerprint(),
	}
	if !u.lists.Empty() {
		u.settle() // there is something to list
	}
	return u
}

// Run starts the server and keeps it connected until ctx ends; then it stops the
// server and returns when nothing is left of it. It always returns nil.
func (u *Upstream) Run(ctx context.Context) error {
	defer u.end()
	if ctx.Err() != nil {
		return nil // taken out again before it began
	}
	defer u.work.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer u.health.timer.Stop()
	defer u.watch.end()

	u.watchFiles(ctx)
	u.carryOut(ctx, u.wish())
	for {
		u.setTimer(timer)
		select {
		case <-ctx.Done():
			u.shutDown()
			return nil
		case <-u.ordered:
			u.obey(ctx)
		case <-timer.C:
			u.carryOut(ctx, inTimer)
		case result := <-u.results:
			u.attemptEnded(ctx, result)
		case <-u.lost():
			u.connectionLost(ctx, u.live.transport.Err())
		case <-u.doubted():
			u.examine(ctx, true)
		case <-u.health.timer.C:
			u.examine(ctx, false)
		case answer := <-u.health.answers:
			u.pinged(ctx, answer)
		case <-u.closed:
			u.carryOut(ctx, inStopped)
		case <-u.changed():
			u.relist(ctx)
		case result := <-u.relists:
			u.relisted(result)
		}
	}
}

// wish is what the config and the user want of the server.
func (u *Upstream) wish() input {
	switch {
	case !u.on || !u.entry.Enabled:
		return inDisabled
	case u.entry.Problem != nil:
		return inInvalid
	}
	return inEnabled
}

// setTimer arms the one timer for the machine's next try.
func (u *Upstream) setTimer(timer *time.Timer) {
	if u.machine.phase == waiting {
		timer.Reset(max(0, time.Until(u.machine.wakeAt)))
	} else {
		timer.Stop()
	}
}

// lost is ready when the live connection is over; nil blocks for ever.
func (u *Upstream) lost() <-chan struct{} {
	if u.live == nil || u.machine.phase != up {
		return nil
	}
	return u.live.transport.Done()
}

// changed is ready when the connected server changed its lists and they are not
// being read already.
func (u *Upstream) changed() <-chan struct{} {
	if u.live == nil || u.machine.phase != up || u.listing {
		return nil
	}
	return u.live.listsChanged
}

// order notes a wish for Run.
func (u *Upstream) order(note func(*orders)) {
	u.mu.Lock()
	note(&u.orders)
	u.mu.Unlock()
	select {
	case u.ordered <- struct{}{}:
	default:
	}
}

// Reconnect stops the server, if it runs, and starts it at once with fresh
// counters. A server that is switched off or invalid stays so.
func (u *Upstream) Reconnect() { u.order(func(o *orders) { o.reconnect = true }) }

// SetEnabled switches the server on or off for the user.
func (u *Upstream) SetEnabled(on bool) { u.order(func(o *orders) { o.on = &on }) }

// Apply takes over a changed entry. The server is restarted only when what
// changed concerns it.
func (u *Upstream) Apply(entry config.Server) { u.order(func(o *orders) { o.entry = &entry }) }

// Check has the server looked at soon, because something happened after which that
// is worth it: the machine woke up, or the network is back. One that is away is tried,
// one that can be asked is pinged.
func (u *Upstream) Check() { u.order(func(o *orders) { o.check = true }) }

// obey carries out the noted orders.
func (u *Upstream) obey(ctx context.Context) {
	u.mu.Lock()
	o := u.orders
	u.orders = orders{}
	u.mu.Unlock()

	before, problem, restart := u.wish(), u.entry.Problem, o.reconnect
	if o.on != nil {
		u.on = *o.on
	}
	if o.entry != nil {
		restart = u.takeEntry(*o.entry) || restart
	}
	u.watchFiles(ctx)
	switch after := u.wish(); {
	case after == inEnabled && restart:
		u.urgent = o.reconnect
		u.carryOut(ctx, inReconnect)
	case after != before || after == inInvalid && *problem != *u.entry.Problem:
		u.carryOut(ctx, after)
	case o.touched:
		u.carryOut(ctx, inTouched)
	case o.wake || o.check:
		u.carryOut(ctx, inWake)
	case o.entry != nil:
		u.show() // what is shown of the entry may have changed
	}
	if o.check {
		u.examine(ctx, true)
	}
}

// takeEntry replaces the entry and reports whether the server must be restarted.
func (u *Upstream) takeEntry(entry config.Server) bool {
	old := u.entry
	u.entry = entry
	u.machine.policy = entry.Reconnect
	if old.Reconnect != entry.Reconnect && u.machine.phase == waiting {
		return true // what was planned no longer holds
	}
	old.Reconnect = entry.Reconnect
	return !reflect.DeepEqual(old, entry)
}

// carryOut feeds one input to the machine, does what it says, and tells.
func (u *Upstream) carryOut(ctx context.Context, in input) {
	before := *u.machine
	switch u.machine.step(in, time.Now()) {
	case doAttempt:
		u.startAttempt(ctx)
	case doStop:
		u.stop()
	case doNothing:
	}
	u.publish(before, in)
}

// stop cancels the attempt under way, or closes the live connection.
func (u *Upstream) stop() {
	if u.live == nil {
		u.cancel(errStopped)
		return
	}
	u.closeLink(errStopped)
}

// closeLink takes the live connection out of use and closes it in the
// background; u.closed tells the end of that.
func (u *Upstream) closeLink(cause error) {
	gone := u.live
	u.live = nil
	u.health.end()
	u.mu.Lock()
	u.link = nil
	u.mu.Unlock()
	gone.end(cause)
	u.facts.pid = 0
	u.work.Go(func() {
		gone.transport.Close()
		u.closed <- struct{}{}
	})
}

// connectionLost takes leave of a connection that is over because of why.
func (u *Upstream) connectionLost(ctx context.Context, why error) {
	err := tidy(u.live.transport, why)
	u.facts.lastError = err.Error()
	u.facts.stderrTail = u.live.transport.StderrTail()
	before := *u.machine
	u.machine.step(inLost, time.Now())
	if u.machine.looping() {
		u.facts.lastError = fmt.Sprintf("crash loop (%d): %s", u.machine.shortLives, u.facts.lastError)
	}
	u.closeLink(err)
	u.announceLoss(err)
	u.publish(before, inLost)
	if u.hasParked() {
		u.carryOut(ctx, inWake)
	}
}

// shutDown stops everything and waits for it.
func (u *Upstream) shutDown() {
	switch u.machine.phase {
	case attempting:
		u.cancel(errStopped)
		if result := <-u.results; result.link != nil {
			result.link.transport.Close()
		}
	case up:
		u.closeLink(errStopped)
		<-u.closed
	case stopping:
		select {
		case <-u.closed:
		case result := <-u.results:
			if result.link != nil {
				result.link.transport.Close()
			}
		}
	case resting, waiting:
	}
}

// leave takes the server out of sight: it was taken out of the config, and stopping
// it may take a while.
func (u *Upstream) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
}

// end refuses what is still parked.
func (u *Upstream) end() {
	u.leave()
	u.failParked()
	u.settle()
}

// settle notes that the first attempt is over.
func (u *Upstream) settle() {
	select {
	case <-u.settled:
	default:
		close(u.settled)
	}
}

// Settled is closed once the server's first attempt is over, or none is wanted.
func (u *Upstream) Settled() <-chan struct{} { return u.settled }

// Lists returns the last good lists, and whether clients are to see them. They must
// not be changed.
func (u *Upstream) Lists() (lists Lists, visible bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lists, u.shown.State != status.Disabled && u.shown.State != status.Invalid && !u.ended
}

// LastGood returns the last good lists and the fingerprint of the entry with which
// they were read.
func (u *Upstream) LastGood() (fingerprint string, lists Lists) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.listsOf, u.lists
}
