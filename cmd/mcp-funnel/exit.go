package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes of the program. 0 means that all went well.
const (
	exitFailed        = 1 // what was asked for could not be done
	exitUsage         = 2 // the command line is wrong
	exitNotRunning    = 3 // no instance is running
	exitInvalidConfig = 4 // the configuration is invalid
)

// exitError is an error that ends the program with a code of its own.
type exitError struct {
	code int
	// err is what the user is told; nil: it has been said already.
	err error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// survivePipes keeps the program from being killed when whoever reads its stdout or
// stderr goes away; writing then fails like any other writing. Commands that run in
// `| head` should die, but not the app, a bridge or the demo: others depend on them.
// The signal is caught and not ignored, because servers would inherit that.
func survivePipes() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// usageError says what is wrong with the command line of cmd and where its help is.
func usageError(cmd *cobra.Command, format string, args ...any) error {
	return &exitError{
		code: exitUsage,
		err:  fmt.Errorf(format+"\nRun %q for how to use it.", append(args, cmd.CommandPath()+" --help")...),
	}
}

// report tells the user about err, if there is something to tell, and returns the
// exit code.
func report(ctx context.Context, stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	code := exitFailed
	if exit, ok := errors.AsType[*exitError](err); ok {
		code = exit.code
		if exit.err == nil {
			return code
		}
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	// Where not even stderr can be written to, only the exit code is left.
	_, _ = fmt.Fprintf(stderr, "mcp-funnel: %v\n", err)
	return code
}

// asUsageError makes err, which may be nil, one about usage, unless it has an
// exit code already.
func asUsageError(cmd *cobra.Command, err error) error {
	if _, decided := errors.AsType[*exitError](err); err == nil || decided {
		return err
	}
	return usageError(cmd, "%w", err)
}
