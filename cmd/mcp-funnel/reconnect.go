package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func newReconnectCommand(env *environment) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "reconnect NAME... | --all",
		Short: "Stop servers and start them again, now",
		Long: `Stop the named servers and start them again now, whatever their state: also one
that is connected, and one that waits for its next try. The count of attempts
begins anew. --all does it for every server that is not disabled.`,
		Example: "  mcp-funnel reconnect github\n  mcp-funnel reconnect --all",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case !all && len(args) == 0:
				return usageError(cmd, "NAME is missing: which server, or --all")
			case all && len(args) > 0:
				return usageError(cmd, "--all and the name %q exclude each other", args[0])
			}
			return nil
		},
		ValidArgsFunction: completeServers(0),
		RunE: func(cmd *cobra.Command, names []string) error {
			return reconnect(cmd.Context(), env, names)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every server that is not disabled")
	return cmd
}

// reconnect does it for the servers with those names, or for all if there are no
// names. One that fails does not keep the others from it.
func reconnect(ctx context.Context, env *environment, names []string) error {
	requests := []any{map[string]bool{"all": true}}
	if len(names) > 0 {
		requests = nil
		for _, name := range names {
			requests = append(requests, map[string]string{"name": name})
		}
	}
	c, err := dialControl(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	var failures []error
	notes := make(map[string]bool) // the same is said only once
	for _, request := range requests {
		note, err := c.reconnect(ctx, env, request)
		if note != "" && !notes[note] {
			notes[note] = true
			_, _ = fmt.Fprintf(env.stderr, "mcp-funnel: %s\n", oneLine(note))
		}
		if _, refused := errors.AsType[*exitError](err); err != nil && !refused {
			return err // the connection is gone
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// reconnect asks for one reconnection and prints what it reached.
func (c *control) reconnect(ctx context.Context, env *environment, request any) (note string, err error) {
	raw, err := c.ask(ctx, "reconnect", request)
	if err != nil {
		return "", err
	}
	var done struct {
		Reconnected []string
		Note        string
	}
	if err := decode(raw, &done); err != nil {
		return "", err
	}
	for _, name := range done.Reconnected {
		if _, err := fmt.Fprintf(env.stdout, "%s: starting again\n", oneLine(name)); err != nil {
			return done.Note, err
		}
	}
	return done.Note, nil
}
