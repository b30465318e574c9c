package core

import (
	"context"
	"log/slog"
	"time"

	"mcp-funnel/core/environ"
)

// loginWait is how long first starts of servers wait for the login shell, which
// may take longer in its rc files than anybody wants to wait.
const loginWait = 2 * time.Second

// environment is what servers inherit and ${VAR} is looked up in. It gets better
// once, when the user's login shell has told its own.
type environment struct {
	own []string
	// whole: take everything from the login shell, not only its PATH, because the
	// app was started by a client's bridge and not by a login.
	whole bool
	log   *slog.Logger
	// told is closed when env will not change any more.
	told chan struct{}
	env  environ.Env // valid once told is closed
}

func newEnvironment(own []string, whole bool, log *slog.Logger) *environment {
	return &environment{own: own, whole: whole, log: log, told: make(chan struct{})}
}

// ask runs the login shell, once.
func (e *environment) ask(ctx context.Context) {
	defer close(e.told)
	e.env = environ.New(e.own)
	login, err := environ.LoginShell(ctx, e.own)
	if err != nil {
		e.log.Warn("asking the login shell for the environment failed; servers get the one of this app", "err", err)
		return
	}
	shell := environ.New(login)
	theirs, _ := shell.Lookup("PATH")
	ours, _ := e.env.Lookup("PATH")
	if e.whole {
		// What names the desktop session comes from the app's own environment.
		e.env = shell.With(e.own)
	}
	e.env = e.env.With([]string{"PATH=" + environ.MergePath(theirs, ours)})
}

// wait returns the environment, after waiting a moment for the login shell.
func (e *environment) wait(ctx context.Context) environ.Env {
	timer := time.NewTimer(loginWait)
	defer timer.Stop()
	select {
	case <-e.told:
		return e.env
	case <-timer.C:
	case <-ctx.Done():
	}
	return environ.New(e.own)
}

// now returns the environment as it is known by now.
func (e *environment) now() environ.Env {
	select {
	case <-e.told:
		return e.env
	default:
		return environ.New(e.own)
	}
}
