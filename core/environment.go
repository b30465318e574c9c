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
	e.env = e.alone()
	login, err := environ.LoginShell(ctx, e.own)
	if err != nil {
		e.log.Warn("asking the login shell for the environment failed; servers get the one of this app", "err", err)
		return
	}
	shell := environ.New(login)
	theirs, _ := shell.Lookup("PATH")
	merged := environ.New(e.own)
	ours, _ := merged.Lookup("PATH")
	if e.whole {
		// What names the desktop session comes from the app's own environment.
		merged = shell.With(e.own)
	}
	e.env = environ.AddUsualPlaces(merged.With([]string{"PATH=" + environ.MergePath(theirs, ours)}))
}

// alone is the app's own environment, for as long as the login shell has not
// answered. The usual places stand in for what that would have added to the PATH.
func (e *environment) alone() environ.Env { return environ.AddUsualPlaces(environ.New(e.own)) }

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
	return e.alone()
}

// now returns the environment as it is known by now.
func (e *environment) now() environ.Env {
	select {
	case <-e.told:
		return e.env
	default:
		return e.alone()
	}
}
