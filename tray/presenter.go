package tray

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"mcp-funnel/core/status"
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
	board    *status.Board
	view     view
	controls Controls
	// opened is a second source for view.opened.
	opened <-chan struct{}
	// post hands a notice over; it must not block.
	post func(Notice)
	// notify reports whether notifications are wanted.
	notify func() bool
	log    *slog.Logger
}

const (
	// refreshEvery is the shortest time between two pictures that the board
	// asks for: for each changed entry a panel reads the whole menu again.
	refreshEvery = 250 * time.Millisecond
	// commandsAtOnce bounds the menu commands under way. More than that is an
	// impatient user; the surplus is dropped.
	commandsAtOnce = 8
)

// run follows the board until ctx ends, and then waits for menu commands that
// are still under way; their context has ended as well.
func (p *presenter) run(ctx context.Context) {
	var commands errgroup.Group
	commands.SetLimit(commandsAtOnce)
	changed := make(chan struct{}, 1)
	commands.Go(func() error { p.watch(ctx, changed); return nil })
	defer func() { _ = commands.Wait() }() // the commands report their own errors

	var (
		shown  model
		past   memory
		opened bool
		last   time.Time
	)
	timer := time.NewTimer(0) // the first picture
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			timer.Reset(time.Until(last.Add(refreshEvery)))
		case <-p.view.opened():
			opened = true
			timer.Reset(0)
		case <-p.opened:
			opened = true
			timer.Reset(0)
		case c := <-p.view.clicks():
			if do, ok := shown.command(c); ok {
				p.start(ctx, &commands, do)
			}
		case <-timer.C:
			last = time.Now()
			shown, past = p.refresh(last, opened, past)
			opened = false
			if !past.wake.IsZero() {
				timer.Reset(max(refreshEvery, past.wake.Sub(last)))
			}
		}
	}
}

// refresh shows the present picture and posts the notices due.
func (p *presenter) refresh(now time.Time, opened bool, past memory) (model, memory) {
	picture, notices, next := present(moment{
		snapshot: p.board.Snapshot(), now: now, opened: opened, quiet: !p.notify(),
	}, past)
	p.view.show(picture)
	for _, n := range notices {
		p.post(n)
	}
	return picture, next
}

// watch puts a token into changed whenever the board has something newer.
func (p *presenter) watch(ctx context.Context, changed chan<- struct{}) {
	var seen uint64
	for {
		snapshot, err := p.board.Wait(ctx, seen)
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

// start carries out a menu command beside the menu.
func (p *presenter) start(ctx context.Context, commands *errgroup.Group, do command) {
	started := commands.TryGo(func() error {
		if err := p.carryOut(ctx, do); err != nil && ctx.Err() == nil {
			p.log.Warn("menu command failed", "server", do.server, "err", err)
		}
		return nil
	})
	if !started {
		p.log.Warn("menu command dropped: too many are under way", "server", do.server)
	}
}

func (p *presenter) carryOut(ctx context.Context, do command) error {
	switch do.entry {
	case entryReconnect:
		return p.controls.Reconnect(ctx, do.server)
	case entryReconnectAll:
		return p.controls.ReconnectAll(ctx)
	case entryEnabled:
		return p.controls.SetEnabled(ctx, do.server, do.on)
	case entryQuit:
		p.controls.Quit()
	}
	return nil
}
