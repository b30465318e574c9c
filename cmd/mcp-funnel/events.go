package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"mcp-funnel/core/status"
)

func newEventsCommand(env *environment) *cobra.Command {
	var asJSON bool
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happens, while it happens",
		Long: `Show each event of the running instance from now on: servers that connect, are
lost and come back, sessions, the configuration, notifications. It ends with
Ctrl-C, after the time given with --for, or when the instance ends.`,
		Example: "  mcp-funnel events\n  mcp-funnel events --json --for 1m",
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("for") && length <= 0 {
				return usageError(cmd, "--for needs a time above 0, such as 10s")
			}
			return noArguments(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			if length > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, length)
				defer cancel()
			}
			return followEvents(ctx, env, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.Flags().DurationVar(&length, "for", 0, "end after this `DURATION`, such as 10s")
	return cmd
}

// followEvents prints events until ctx or the instance ends.
func followEvents(ctx context.Context, env *environment, asJSON bool) error {
	err := streamEvents(ctx, env.stdout, asJSON)
	switch {
	case ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || err == nil):
		return nil
	case errors.Is(err, errGone):
		_, _ = fmt.Fprintln(env.stderr, "mcp-funnel: the instance has ended")
		return nil
	}
	return err
}

// streamEvents subscribes and prints until that fails.
func streamEvents(ctx context.Context, stdout io.Writer, asJSON bool) error {
	c, err := dialControl(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := c.ask(ctx, "events", nil); err != nil {
		return err
	}
	for {
		raw, err := c.notification(ctx)
		if err != nil {
			return err
		}
		if err := printEvent(stdout, raw, asJSON); err != nil {
			return err
		}
	}
}

// printEvent writes one event, as JSON just as it came.
func printEvent(w io.Writer, raw json.RawMessage, asJSON bool) error {
	if asJSON {
		_, err := fmt.Fprintf(w, "%s\n", raw)
		return err
	}
	var event status.Event
	if err := decode(raw, &event); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, describeEvent(event))
	return err
}
