package tray

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"mcp-funnel/core/status"
)

// ErrUnavailable says that no tray can be shown. What is missing and what mends
// it is in the text of the error that wraps it.
var ErrUnavailable = errors.New("tray unavailable")

// Controls is what the menu needs of the funnel. The methods may block; each
// call has a goroutine of its own.
type Controls interface {
	// Reconnect stops and starts one server now.
	Reconnect(ctx context.Context, name string) error
	// ReconnectAll stops and starts every enabled server now.
	ReconnectAll(ctx context.Context) error
	// SetEnabled switches a server on or off, lastingly.
	SetEnabled(ctx context.Context, name string, on bool) error
	// Quit asks the app to end; it ends the context of Run sooner or later.
	Quit()
}

// Options is what a tray works with. Board, Events, Controls and Log are
// required.
type Options struct {
	// Board has the picture to show; the tray publishes on it whether an icon
	// is shown.
	Board *status.Board
	// Events is told of each notification that was shown.
	Events   *status.Events
	Controls Controls
	// Version is shown in the menu, for example "1.2.3".
	Version string
	Log     *slog.Logger
	// Policy says when the user is told of trouble, as of now. Nil: never.
	Policy func() Policy
	// Notifications is the user's tick for them. Nil: it is always set and cannot be
	// changed.
	Notifications Switch
	// Autostart is whether the app is started at login. Nil: the menu does not say.
	Autostart Switch
	// Details measures what is shown when the menu opens. It may take a moment. Nil:
	// nothing is.
	Details func(ctx context.Context) Details
	// LogPath is where the log of a server is.
	LogPath func(server string) string
	// ConfigPath is where the configuration is, or would be.
	ConfigPath string
	// Updated reports whether a newer program than the running one is in place. It
	// is asked when the menu opens. Nil: never. Restart starts it.
	Updated func() bool
	Restart func(ctx context.Context) error
	// Open opens a file for the user. Nil: by the desktop's program for it.
	Open func(ctx context.Context, path string) error
	// Notifier shows notifications. Nil: the desktop's.
	Notifier Notifier
	// Environ looks up an environment variable. Nil: [os.Getenv].
	Environ func(string) string
}

// Switch is a setting with a tick in the menu. Set may block; On is asked again and
// again, also while Set is under way.
type Switch interface {
	On() bool
	Set(on bool) error
}

// fixedSwitch is a setting that is on.
type fixedSwitch struct{}

func (fixedSwitch) On() bool       { return true }
func (fixedSwitch) Set(bool) error { return errors.New("it cannot be changed here") }

// Details is what is measured when the user opens the menu.
type Details struct {
	// Memory is the resident memory of the servers' processes in bytes, by name.
	Memory map[string]int64
	// Sessions are the attached clients with their present numbers of calls.
	Sessions []status.Session
}

// Tray is the icon, its menu and the notifications.
type Tray struct {
	o Options
}

// New returns a tray that is not shown yet; see [Tray.Run].
func New(o Options) *Tray {
	if o.Policy == nil {
		o.Policy = func() Policy { return Policy{} }
	}
	if o.Notifications == nil {
		o.Notifications = fixedSwitch{}
	}
	if o.Open == nil {
		o.Open = openFile
	}
	if o.Environ == nil {
		o.Environ = os.Getenv
	}
	return &Tray{o: o}
}

// desktopGrace is how long a desktop that does not answer can hold up quitting.
const desktopGrace = 3 * time.Second

// farewell is how long closing the notices on the screen may take at the end.
const farewell = time.Second

// Run shows the tray and blocks until ctx ends, then returns nil. Where no tray
// can be shown, or not any longer because the session bus went away, it says so
// on the board and once in the log, and returns an error that wraps
// [ErrUnavailable]: there is nothing left to report, and everything but the
// tray goes on.
//
// It must be called on the main goroutine and at most once in a process.
func (t *Tray) Run(ctx context.Context) error {
	session, err := openSession(ctx, t.o.Environ)
	if err != nil {
		return t.unavailable(ctx, err)
	}
	defer within(desktopGrace, session.close)

	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	view := newView(t.o.Version)
	var wg sync.WaitGroup
	t.start(running, &wg, session, view)
	wg.Go(func() { stop(session.wait(running)) })
	// What the presenter is going to show first, so that nothing else flashes up.
	policy, ticked := t.policy()
	first, _, _ := present(moment{
		snapshot: t.o.Board.Snapshot(), now: time.Now(), policy: policy, noTick: !ticked,
	}, memory{})
	view.run(running, first, func() {
		if !within(desktopGrace, func() { view.join(); wg.Wait() }) {
			t.o.Log.Warn("the desktop does not answer, leaving without taking the tray down")
		}
	})
	return t.unavailable(ctx, context.Cause(running))
}

// start begins what runs beside the user interface.
func (t *Tray) start(ctx context.Context, wg *sync.WaitGroup, session *session, view *systrayView) {
	notifier := t.o.Notifier
	var own *DesktopNotifier
	if notifier == nil {
		own = NewNotifier(t.o.Environ)
		notifier = own
	}
	courier := newCourier(notifier, t.o.Events, t.o.Log)
	wg.Go(func() {
		courier.run(ctx)
		if own != nil {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
			defer cancel()
			own.clear(last) // nobody would answer to their buttons, or close them
			own.Close()
		}
	})
	presenter := &presenter{o: t.o, policy: t.policy, view: view, opened: session.opened, post: courier.post}
	if own != nil {
		presenter.asked = own.asked
	}
	wg.Go(func() {
		select {
		case <-view.ready:
			presenter.run(ctx)
		case <-ctx.Done():
		}
	})
	wg.Go(func() {
		if err := session.watchMenu(ctx); err != nil && ctx.Err() == nil {
			t.o.Log.Info("the menu's rows keep their order on some panels", "err", err)
		}
	})
	wg.Go(func() {
		if err := session.follow(ctx, t.publish); err != nil && ctx.Err() == nil {
			t.o.Log.Warn("status will not tell whether the icon is shown", "err", err)
		}
	})
}

// policy is the configuration's, as far as the user's tick goes along with it.
func (t *Tray) policy() (policy Policy, ticked bool) {
	policy, ticked = t.o.Policy(), t.o.Notifications.On()
	policy.Enabled = policy.Enabled && ticked
	return policy, ticked
}

// publish puts on the board whether an icon is shown.
func (t *Tray) publish(tray status.Tray) {
	t.o.Board.Update(func(s *status.Snapshot) { s.Tray = tray })
	if tray.Shown {
		t.o.Log.Info("tray icon shown")
	} else {
		t.o.Log.Info("tray icon not shown", "err", tray.Reason)
	}
}

// unavailable makes err known. An end of ctx in the middle is no failure.
func (t *Tray) unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	t.o.Board.Update(func(s *status.Snapshot) { s.Tray = status.Tray{Reason: err.Error()} })
	t.o.Log.Warn("tray unavailable", "err", err)
	return err
}

// within runs f and reports whether it was done in time; otherwise f is left
// running.
func within(d time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
