package main

import (
	"github.com/spf13/cobra"
)

func newTrayCommand(env *environment) *cobra.Command {
	var replace, byBridge bool
	cmd := &cobra.Command{
		Use:   "tray",
		Short: "Start the app with its tray icon",
		Long: `Start the one instance of MCP Funnel, with an icon in the tray of the desktop.

Without a usable desktop it says why and serves without an icon. When an instance
runs already nothing is started, unless that one has no icon and this one can
have one: then this one takes over.`,
		Example: "  mcp-funnel tray\n  mcp-funnel tray --replace",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			return runApp(ctx, appOptions{
				tray: true, replace: replace, byBridge: byBridge,
				config: env.configPath(), ownConfig: env.configFile != "", stderr: env.stderr,
			})
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "take over from the instance that runs")
	cmd.Flags().BoolVar(&byBridge, "by-bridge", false, "started by a bridge, not by a login")
	// It always exists: it was declared in the line above.
	_ = cmd.Flags().MarkHidden("by-bridge")
	return cmd
}

func newServeCommand(env *environment) *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start the app without an icon, in the foreground",
		Long: `Start the one instance of MCP Funnel without an icon and stay in the foreground,
for machines without a desktop and for service managers. Ends with exit code 4
when the configuration cannot be read.`,
		Example: "  mcp-funnel serve\n  mcp-funnel serve --config ./funnel.json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			return runApp(ctx, appOptions{
				replace: replace,
				config:  env.configPath(), ownConfig: env.configFile != "", stderr: env.stderr,
			})
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "take over from the instance that runs")
	return cmd
}

func newBridgeCommand(env *environment) *cobra.Command {
	o := bridgeOptions{in: env.stdin, out: env.stdout, stderr: env.stderr}
	cmd := &cobra.Command{
		Use:   "bridge",
		Short: "Connect an MCP client to the app (clients run this)",
		Long: `Carry MCP messages between stdin and stdout and the app's socket. This is the
command to give to MCP clients. It starts the app when none runs, and stays when
the app goes, until it is back.`,
		Example: "  mcp-funnel connect claude-code     # lets Claude Code run it\n  mcp-funnel bridge --no-start",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			return runBridge(ctx, o)
		},
	}
	cmd.Flags().StringVar(&o.name, "name", "funnel", "the `NAME` under which the client has the funnel; it counts for the length of tool names")
	cmd.Flags().BoolVar(&o.noStart, "no-start", false, "wait for an app instead of starting one")
	return cmd
}

func newDemoCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show in ten seconds what the app does",
		Long: `Start the app on a built-in MCP server, in private folders of its own, attach a
client, kill the server, and show how its tools come back by themselves. Nothing
of yours is touched, and nothing is left.`,
		Example: "  mcp-funnel demo",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			return runDemo(ctx, env.stdout)
		},
	}
}

func newHiddenServerCommand(env *environment) *cobra.Command {
	var downWhile string
	var extra int
	cmd := &cobra.Command{
		Use:    "demo-server",
		Short:  "A small MCP server over stdio, for the demo and for tests",
		Hidden: true,
		Args:   noArguments,
		RunE: func(*cobra.Command, []string) error {
			return runDemoServer(env.stdin, env.stdout, downWhile, extra)
		},
	}
	cmd.Flags().StringVar(&downWhile, "down-while", "", "refuse to start while `FILE` exists")
	cmd.Flags().IntVar(&extra, "tools", 0, "have `N` more tools")
	return cmd
}
