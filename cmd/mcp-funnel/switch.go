package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newSwitchCommand makes the command enable or, with on false, disable.
func newSwitchCommand(env *environment, on bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "enable NAME",
		Short: "Switch a disabled server on again",
		Long: `Take back "mcp-funnel disable NAME" and start the server. A server that the
configuration disables stays off: see "enabled" there.`,
		Example: "  mcp-funnel enable github",
	}
	method, outcome := "enable", "enabled"
	if !on {
		cmd = &cobra.Command{
			Use:   "disable NAME",
			Short: "Stop a server and keep it off",
			Long: `Stop the server and take its tools away, until "mcp-funnel enable NAME". It stays
off over restarts; the configuration file is not changed.`,
			Example: "  mcp-funnel disable github",
		}
		method, outcome = "disable", "disabled"
	}
	cmd.Args = oneArgument("NAME")
	cmd.ValidArgsFunction = completeServers(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := askOnce(cmd.Context(), method, map[string]string{"name": args[0]}, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintf(env.stdout, "%s: %s\n", oneLine(args[0]), outcome)
		return err
	}
	return cmd
}
