package tray

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// view is the menu and the icon. All methods but the channels' are called by
// the presenter's goroutine only.
type view interface {
	// show makes the desktop look like m.
	show(m model)
	// clicks delivers clicks on the menu.
	clicks() <-chan click
	// opened is told when the user opens the menu, where the desktop says so.
	opened() <-chan struct{}
}

// presenter keeps the view and the notices in step with the board.
type presenter struct {
	o Options
	// policy says when the user is told of trouble, and whether the user has the tick
	// for that set.
	policy func() (Policy, bool)
	view   view
	// opened is a second source for view.opened.
	opened <-chan struct{}
	// asked delivers what the user chose on a notification.
	asked <-chan noticeAction
	// post hands a notice over; it must not block.
	post func(Notice)
}

const (
	// refreshEvery is the shortest time between two pictures that the board
	// asks for: for each changed entry a panel reads the whole menu again.
	refreshEvery = 250 * time.Millisecond
	// measureEvery is the shortest time between two measurements.
	measureEvery = time.Second
	// commandsAtOnce bounds the menu commands under way. More than that is an
	// impatient user; the surplus is dropped.
	commandsAtOnce = 8
)

// run follows the board until ctx ends, and then waits for menu commands that
// are still under way; their context has ended as well.
func (p *presenter) run(ctx context.Context) {
	l := &loop{
		presenter: p, started: time.Now(), measured: make(chan facts), settled: make(chan struct{}, 1),
		timer: time.NewTimer(0), // the first picture
	}
	defer l.timer.Stop()
	l.commands.SetLimit(commandsAtOnce)
	changed := make(chan struct{}, 1)
	l.work.Go(func() { p.watch(ctx, changed) })
	defer l.work.Wait()
	defer func() { _ = l.commands.Wait() }() // the commands report their own errors
	l.measure(ctx, false)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			l.refreshSoon()
		case <-p.view.opened():
			l.open(ctx)
		case <-p.opened:
			l.open(ctx)
		case f := <-l.measured:
			l.facts, l.measuring = f, false
			if l.again {
				l.again = false
				l.measure(ctx, l.againLooked)
			}
			l.refreshSoon()
		case <-l.settled:
			l.measure(ctx, false)
			l.refreshSoon()
		case c := <-p.view.clicks():
			if do, ok := l.shown.command(c); ok {
				l.start(ctx, do)
			}
		case a := <-p.asked:
			l.start(ctx, command{entry: a.entry, server: a.server})
		case <-l.timer.C:
			l.refresh()
		}
	}
}

// watch puts a token into changed whenever the board has something newer.
func (p *presenter) watch(ctx context.Context, changed chan<- struct{}) {
	var seen uint64
	for {
		snapshot, err := p.o.Board.Wait(ctx, seen)
		if err != nil {
			return // ctx has ended: the board fails with nothing else
		}
		seen = snapshot.Generation
		select {
		case changed <- struct{}{}:
		default: // a token is there; whoever takes it reads the newest picture
		}
	}
}

// loop is a presenter at work. Its fields belong to the goroutine of run.
type loop struct {
	*presenter
	started time.Time
	timer   *time.Timer
	// work are goroutines besides commands.
	work     sync.WaitGroup
	commands errgroup.Group

	shown  model
	past   memory
	facts  facts
	opened bool
	last   time.Time // when the last picture was shown
	// measured delivers what was measured; settled has a token after a command.
	measured  chan facts
	settled   chan struct{}
	measuring bool
	looked    time.Time // when was measured last because the menu opened
	// again: something may have changed since the measurement under way began.
	again, againLooked bool
}

// refreshSoon sees to a new picture as soon as there may be one.
func (l *loop) refreshSoon() { l.timer.Reset(time.Until(l.last.Add(refreshEvery))) }

// open is called when the user opens the menu.
func (l *loop) open(ctx context.Context) {
	l.opened = true
	l.timer.Reset(0)
	l.measure(ctx, true)
}

// refresh shows the present picture and posts the notices due.
func (l *loop) refresh() {
	l.last = time.Now()
	policy, ticked := l.policy()
	picture, notices, next := present(moment{
		snapshot: l.o.Board.Snapshot(), now: l.last, started: l.started,
		opened: l.opened, policy: policy, noTick: !ticked, facts: l.facts,
	}, l.past)
	l.shown, l.past, l.opened = picture, next, false
	l.view.show(picture)
	for _, n := range notices {
		l.post(n)
	}
	if !next.wake.IsZero() {
		l.timer.Reset(max(refreshEvery, next.wake.Sub(l.last)))
	}
}

// measure finds out what is not on the board, beside the menu. With looked it is
// all of it, because the user looks at the menu; else just the settings.
func (l *loop) measure(ctx context.Context, looked bool) {
	if looked && time.Since(l.looked) < measureEvery {
		return
	}
	if l.measuring {
		l.againLooked = looked || l.again && l.againLooked
		l.again = true
		return
	}
	l.measuring = true
	if looked {
		l.looked = time.Now()
	}
	f := l.facts
	l.work.Go(func() {
		if l.o.Autostart != nil {
			on := l.o.Autostart.On()
			f.autostart = &on
		}
		if looked && l.o.Details != nil {
			f.Details = l.o.Details(ctx)
		}
		if looked && l.o.Updated != nil {
			f.updated = l.o.Updated()
		}
		select {
		case l.measured <- f:
		case <-ctx.Done():
		}
	})
}

// start carries out a command beside the menu.
func (l *loop) start(ctx context.Context, do command) {
	if do.entry == entryQuit { // also where commands hang
		l.work.Go(l.o.Controls.Quit)
		return
	}
	started := l.commands.TryGo(func() error {
		if err := l.carryOut(ctx, do); err != nil && ctx.Err() == nil {
			l.o.Log.Warn("menu command failed", "server", do.server, "err", err)
			if policy, _ := l.policy(); policy.Enabled {
				l.post(commandNotice(do.what(), err))
			}
		}
		select {
		case l.settled <- struct{}{}:
		default:
		}
		return nil
	})
	if !started {
		l.o.Log.Warn("menu command dropped: too many are under way", "server", do.server)
	}
}

func (p *presenter) carryOut(ctx context.Context, do command) error {
	switch do.entry {
	case entryReconnect:
		return p.o.Controls.Reconnect(ctx, do.server)
	case entryReconnectAll:
		return p.o.Controls.ReconnectAll(ctx)
	case entryEnabled:
		return p.o.Controls.SetEnabled(ctx, do.server, do.on)
	case entryShowLog:
		return p.showLog(ctx, do.server)
	case entryEditConfig:
		return p.editConfig(ctx)
	case entryAutostart:
		return p.o.Autostart.Set(do.on)
	case entryNotifications:
		return p.o.Notifications.Set(do.on)
	case entryRestart:
		return p.o.Restart(ctx)
	case entryQuit: // see start
	}
	return nil
}
