package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mcp-funnel/core"
	"mcp-funnel/core/status"
)

func newStatusCommand(env *environment) *cobra.Command {
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show servers, sessions, tray and configuration",
		Long: `Show what the running instance knows: every server with its state, the attached
sessions, whether the tray icon is shown and why not, and what is wrong with the
configuration. The exit code is 0 also when servers are down.`,
		Example: "  mcp-funnel status\n  mcp-funnel status --watch\n  mcp-funnel status --json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch {
				ctx, stop := untilInterrupted(cmd.Context())
				defer stop()
				return (&watcher{env: env, asJSON: asJSON}).run(ctx)
			}
			return showStatus(cmd.Context(), env, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on and show every change, until Ctrl-C")
	return cmd
}

// untilInterrupted ends the context at Ctrl-C and the like, which is how commands
// that go on for ever are meant to end.
func untilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup asks to outlive the terminal
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(ctx, signals...)
}

// askStatus asks for the status; raw is the answer as it came.
func askStatus(ctx context.Context, c *control) (now core.Report, raw json.RawMessage, err error) {
	if raw, err = c.ask(ctx, "status", nil); err != nil {
		return now, nil, err
	}
	return now, raw, decode(raw, &now)
}

func showStatus(ctx context.Context, env *environment, asJSON bool) error {
	c, err := dialControl(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	now, raw, err := askStatus(ctx, c)
	if err != nil {
		return err
	}
	return printStatus(env.stdout, now, raw, asJSON)
}

// printStatus writes an answer in one of the two forms.
func printStatus(w io.Writer, now core.Report, raw json.RawMessage, asJSON bool) error {
	if asJSON {
		return writeIndented(w, raw)
	}
	_, err := io.WriteString(w, describeStatus(now, time.Now()))
	return err
}

// watchInterval is how often the status is asked for, and how often it is tried
// to reach an instance that has gone.
const watchInterval = time.Second

// clearScreen moves to the upper left corner of a terminal and clears it all.
const clearScreen = "\x1b[H\x1b[2J"

// watcher shows the status again and again.
type watcher struct {
	env    *environment
	asJSON bool

	c     *control     // nil while there is no instance
	shown *core.Report // what was shown last, nil if nothing or that there is no instance
	lost  bool         // it was said that there is no instance
}

// run goes on until ctx ends, also while the instance is restarted. Only at the
// beginning there has to be one.
func (w *watcher) run(ctx context.Context) error {
	defer w.hangUp()
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	for first := true; ; first = false {
		err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			w.lose(err)
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look asks once and shows the answer. A connection that broke since the last time
// is replaced, to see whether there is an instance now.
func (w *watcher) look(ctx context.Context) error {
	kept := w.c != nil
	if !kept {
		c, err := dialControl(ctx)
		if err != nil {
			return err
		}
		w.c = c
	}
	now, raw, err := askStatus(ctx, w.c)
	if err != nil {
		w.hangUp()
		if kept && errors.Is(err, errGone) {
			return w.look(ctx)
		}
		return err
	}
	w.lost = false
	return w.show(now, raw)
}

// show draws the whole picture anew on a terminal, where times count down. Other
// readers get each picture that differs from the one before.
func (w *watcher) show(now core.Report, raw json.RawMessage) error {
	terminal := !w.asJSON && isTerminal(w.env.stdout)
	steady := steadyPart(now)
	if !terminal && w.shown != nil && reflect.DeepEqual(*w.shown, steady) {
		return nil
	}
	before := ""
	switch {
	case terminal:
		before = clearScreen
	case w.shown != nil && !w.asJSON:
		before = "\n"
	}
	w.shown = &steady
	if _, err := io.WriteString(w.env.stdout, before); err != nil {
		return err
	}
	return printStatus(w.env.stdout, now, raw, w.asJSON)
}

// lose says once that there is no instance any more.
func (w *watcher) lose(err error) {
	if !w.lost {
		w.lost, w.shown = true, nil
		_, _ = fmt.Fprintf(w.env.stderr, "mcp-funnel: waiting for an instance: %v\n", err)
	}
}

// hangUp ends the connection, if there is one.
func (w *watcher) hangUp() {
	if w.c != nil {
		w.c.close()
		w.c = nil
	}
}

// steadyPart is r without what changes all the time.
func steadyPart(r core.Report) core.Report {
	r.UptimeSeconds, r.Goroutines = 0, 0
	servers := make([]status.Server, len(r.Servers))
	for i, server := range r.Servers {
		server.RSSBytes = 0
		servers[i] = server
	}
	r.Servers = servers
	return r
}

// isTerminal reports whether w is a screen that understands [clearScreen].
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || strings.EqualFold(os.Getenv("TERM"), "dumb") {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
