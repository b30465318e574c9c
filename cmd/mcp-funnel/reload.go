package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newReloadCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Read the configuration again, now",
		Long: `Let the running instance read its configuration again. It does so by itself
within 2 seconds of every edit; this command also says what came of it. Only
servers whose own entry changed are restarted. A file that cannot be read changes
nothing; the exit code is 4 then.`,
		Example: "  mcp-funnel reload",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var outcome struct{ Added, Removed, Changed, Warnings []string }
			if err := askOnce(cmd.Context(), "reload", nil, &outcome); err != nil {
				return err
			}
			for _, warning := range outcome.Warnings {
				_, _ = fmt.Fprintf(env.stderr, "mcp-funnel: warning: %s\n", oneLine(warning))
			}
			_, err := fmt.Fprintln(env.stdout, describeChanges(outcome.Added, outcome.Removed, outcome.Changed))
			return err
		},
	}
}

// describeChanges says which servers came, went and changed.
func describeChanges(added, removed, changed []string) string {
	var parts []string
	for _, group := range []struct {
		word  string
		names []string
	}{{"added", added}, {"removed", removed}, {"changed", changed}} {
		if len(group.names) > 0 {
			parts = append(parts, group.word+" "+oneLine(strings.Join(group.names, ", ")))
		}
	}
	if len(parts) == 0 {
		return "no server changed"
	}
	return strings.Join(parts, "; ")
}
