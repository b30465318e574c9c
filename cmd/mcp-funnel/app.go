package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mcp-funnel/core"
	"mcp-funnel/core/config"
	"mcp-funnel/singleton"
	"mcp-funnel/singleton/process"
	"mcp-funnel/tray"
)

// Modes of the app, as in funnel.json and in `status`.
const (
	modeTray     = "tray"
	modeHeadless = "headless"
)

// idleExit is how long an app that a bridge started, and that shows no icon, stays
// after its last session.
const idleExit = 10 * time.Minute

// appOptions says how to run the app.
type appOptions struct {
	// tray: show an icon if there is a desktop; otherwise run headless, and a
	// config that cannot be read ends the start.
	tray bool
	// replace takes over from a running instance.
	replace bool
	// config is the path of the config; ownConfig: the user asked for just this one.
	config    string
	ownConfig bool
	// byBridge: a client's bridge started it, not a login.
	byBridge bool
	stderr   io.Writer
}

// app is the one running instance: it joins the funnel, the socket and the tray.
type app struct {
	options  appOptions
	dir      string
	home     string
	program  ownProgram
	desktop  error // why there is no icon; nil when there is one
	instance *singleton.Instance
	funnel   *core.Funnel
	log      *slog.Logger
	mode     atomic.Pointer[string]

	// leave ends the app; reason is what bridges are told, "quit" or "replace".
	// quitting is closed when there is one.
	leave    context.CancelFunc
	reason   string
	quitting chan struct{}
	once     sync.Once
}

// runApp runs the instance until it is told to quit. It must be called on the main
// goroutine, which some desktops reserve for their menus.
func runApp(ctx context.Context, o appOptions) error {
	survivePipes()
	a := &app{options: o, program: findOwnProgram(), quitting: make(chan struct{})}
	if err := a.findPlace(ctx); err != nil {
		return err
	}
	if err := a.checkConfig(); err != nil {
		return err // before anybody makes way for this instance
	}
	if err := core.MakeStateDir(core.StateDir()); err != nil {
		return err
	}
	logFile := core.OpenLog(core.LogPath(core.StateDir()))
	defer func() { _ = logFile.Close() }() // every line was written when it came
	a.log = slog.New(slog.NewMultiHandler(
		slog.NewTextHandler(logFile, &slog.HandlerOptions{Level: slog.LevelDebug}),
		slog.NewTextHandler(o.stderr, nil),
	))
	// systray reports through the standard logger.
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(a.log.Handler(), slog.LevelDebug).Writer())
	instance, err := a.claim(ctx)
	if err != nil || instance == nil {
		return err
	}
	a.instance = instance
	a.refreshAutostart()
	defer func() {
		if err := instance.Close(); err != nil {
			a.log.Error("removing the instance's files failed", "err", err)
		}
	}()
	return a.run(ctx)
}

// findPlace works out folders, config and desktop.
func (a *app) findPlace(ctx context.Context) error {
	var err error
	if a.dir, err = singleton.RuntimeDir(); err != nil {
		return err
	}
	if a.home, err = os.UserHomeDir(); err != nil {
		return fmt.Errorf("finding the home folder: %w", err)
	}
	mode := modeHeadless
	if a.options.tray {
		if a.desktop = tray.Usable(ctx, os.Getenv); a.desktop == nil {
			mode = modeTray
		}
	} else {
		a.desktop = errors.New("started with `mcp-funnel serve`, which shows no icon")
	}
	a.mode.Store(&mode)
	return nil
}

// checkConfig refuses to serve without an icon on a config that cannot be read: a
// service manager should know. With an icon the app shows the error and waits.
func (a *app) checkConfig() error {
	if a.options.tray {
		return nil
	}
	_, err := config.Load(a.options.config, config.Options{
		Lookup: os.LookupEnv, Home: a.home, BasePath: config.DefaultBasePath(a.home),
	})
	if err != nil {
		return &exitError{code: exitInvalidConfig, err: err}
	}
	return nil
}

// claim takes the one place of the user's instance. It returns nil without an error
// when another instance holds it rightly.
func (a *app) claim(ctx context.Context) (*singleton.Instance, error) {
	start, err := process.StartTime(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("finding the start time of this process: %w", err)
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the program's file: %w", err)
	}
	instance, err := singleton.Claim(ctx, singleton.ClaimOptions{
		Dir: a.dir,
		Info: singleton.Info{
			PID: os.Getpid(), StartTime: start, Exe: executable,
			Version: buildVersion(), Config: a.options.config, Mode: *a.mode.Load(),
		},
		Replace: a.options.replace,
		Desktop: a.options.tray && a.desktop == nil,
		Log:     a.log,
	})
	var running *singleton.RunningError
	if errors.As(err, &running) && (!running.OtherConfig || !a.options.ownConfig) {
		_, err = fmt.Fprintf(a.options.stderr, "mcp-funnel: already running (pid %d)\n", running.Info.PID)
		return nil, err
	}
	return instance, err
}

// run serves until somebody ends the app.
func (a *app) run(ctx context.Context) error {
	// The end of the given context (a signal) is a quit like any other, so that
	// clients are told before anything stops.
	signalled := ctx
	ctx, a.leave = context.WithCancel(context.WithoutCancel(ctx))
	defer a.leave()

	a.funnel = core.New(core.Options{
		ConfigPath: a.options.config,
		BasePath:   config.DefaultBasePath(a.home),
		RuntimeDir: a.dir,
		StateDir:   core.StateDir(),
		Home:       a.home,
		Environ:    os.Environ(),
		WholeLogin: a.options.byBridge,
		Version:    buildVersion(),
		Mode:       func() string { return *a.mode.Load() },
		Quit:       a.quit,
		Log:        a.log,
	})
	listener, err := a.instance.Listen()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(signalled, func() { a.quit("quit") })
	defer stop()
	return a.serve(ctx, listener)
}

// serve runs all parts side by side and joins them.
func (a *app) serve(ctx context.Context, listener net.Listener) error {
	a.log.Info("started", "version", buildVersion(), "pid", os.Getpid(), "mode", *a.mode.Load(), "config", a.options.config)
	if a.desktop != nil {
		a.funnel.Board().Update(noTray(a.desktop))
		if a.options.tray {
			a.log.Warn("serving without an icon", "err", a.desktop)
		}
	}
	parts, partsCtx := errgroup.WithContext(ctx)
	parts.Go(func() error { return a.funnel.Run(partsCtx) })
	parts.Go(func() error { return a.accept(partsCtx, listener) })
	parts.Go(func() error { return a.serveHTTP(partsCtx) })
	parts.Go(func() error { return a.guard(partsCtx) })
	parts.Go(func() error { return a.leaveWhenIdle(partsCtx) })
	parts.Go(func() error { return a.leaveWhenAsked(partsCtx) })
	if a.desktop == nil {
		a.showTray(partsCtx)
	}
	err := parts.Wait()
	a.log.Info("ended")
	return err
}

// guard ends the app when somebody took its files away: it could not be found any
// more.
func (a *app) guard(ctx context.Context) error {
	err := a.instance.Guard(ctx)
	if _, ok := errors.AsType[*singleton.DisplacedError](err); ok {
		a.log.Error("quitting: the files of this instance were replaced", "err", err)
		a.quit("quit")
	}
	return nil
}

// quit ends the app; the first reason counts.
func (a *app) quit(reason string) {
	a.once.Do(func() {
		a.reason = reason
		a.log.Info("quitting", "reason", reason)
		a.funnel.Bye(reason)
		close(a.quitting)
	})
}

// replaceGrace is how long calls may still run when another instance takes over.
const replaceGrace = 10 * time.Second

// leaveWhenAsked ends the app once somebody called quit. One that is replaced lets
// running calls end first: their clients go on with the successor.
func (a *app) leaveWhenAsked(ctx context.Context) error {
	defer a.leave()
	select {
	case <-a.quitting:
	case <-ctx.Done():
		return nil
	}
	if a.reason == "replace" {
		ctx, cancel := context.WithTimeout(ctx, replaceGrace)
		defer cancel()
		a.funnel.Drain(ctx)
	}
	return nil
}

// errIdle: nobody used the app for a while.
var errIdle = errors.New("no session for a while")

// leaveWhenIdle ends an app that only a bridge wanted, a while after its last
// session. One with an icon stays: the user sees it and can quit it.
func (a *app) leaveWhenIdle(ctx context.Context) error {
	if !a.options.byBridge {
		return nil
	}
	board := a.funnel.Board()
	idleSince := time.Now()
	for {
		snap := board.Snapshot()
		waiting, cancel := ctx, context.CancelFunc(func() {})
		if len(snap.Sessions) > 0 || *a.mode.Load() == modeTray {
			idleSince = time.Time{}
		} else {
			if idleSince.IsZero() {
				idleSince = time.Now()
			}
			waiting, cancel = context.WithDeadlineCause(ctx, idleSince.Add(idleExit), errIdle)
		}
		_, err := board.Wait(waiting, snap.Generation)
		cancel()
		if errors.Is(err, errIdle) {
			a.log.Info("no session for a while", "idle", idleExit)
			a.quit("quit")
		}
		if err != nil {
			return nil
		}
	}
}
