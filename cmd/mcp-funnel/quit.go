package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mcp-funnel/singleton"
)

// quitTimeout is how long the instance may take to end: it promises 10 s.
const quitTimeout = 12 * time.Second

func newQuitCommand(_ *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "quit",
		Short: "Stop the app and every server it started",
		Long: `Stop the running instance and every server it started, and return when all of
them are gone. Bridges that are attached wait until somebody starts the app again.`,
		Example: "  mcp-funnel quit",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return quit(cmd.Context()) },
	}
}

// quit ends the running instance and returns when it is gone.
func quit(ctx context.Context) error {
	err := askOnce(ctx, "quit", map[string]string{"reason": "quit"}, nil)
	// It may be gone before its answer is through.
	if err != nil && !errors.Is(err, errGone) {
		return err
	}
	dir, err := singleton.RuntimeDir()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, quitTimeout,
		fmt.Errorf("it agreed to quit %v ago and still runs", quitTimeout))
	defer cancel()
	return singleton.WaitGone(ctx, dir)
}
