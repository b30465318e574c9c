package main

import (
	"cmp"
	"context"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"mcp-funnel/core/config"
)

// environment is what the commands get from the process and from flags that
// several of them have.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// configFile is the value of --config, empty without it. See configPath.
	configFile string
}

// configPath is the absolute path of the configuration: --config, else
// MCP_FUNNEL_CONFIG, else the usual place.
func (e *environment) configPath() string {
	path := cmp.Or(e.configFile, config.DefaultPath())
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path // the working folder is gone; opening the file will say so
}

// run carries out one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	env := &environment{stdin: stdin, stdout: stdout, stderr: stderr}
	root := newRootCommand(env) //nolint:contextcheck // commands get ctx from cobra
	root.SetArgs(args)
	return report(ctx, stderr, root.ExecuteContext(ctx))
}

const (
	groupApp     = "app"
	groupServers = "servers"
	groupOther   = "other"
)

// newRootCommand builds the command tree. Without a sub-command the root is the
// tray command, flags included.
func newRootCommand(env *environment) *cobra.Command {
	// Cobra would refuse to run when started from the Windows Explorer, which for
	// an app with a tray icon is the usual way.
	cobra.MousetrapHelpText = ""

	tray, serve := newTrayCommand(env), newServeCommand(env)
	for _, cmd := range []*cobra.Command{tray, serve} {
		addConfigFlag(cmd, env)
	}
	root := &cobra.Command{
		Use:   "mcp-funnel",
		Short: "Run every MCP server once and share it among all clients",
		Long: `MCP Funnel runs every MCP server you configured, once, and serves them merged
to any number of MCP clients. Servers that die are brought back.

Without a command it starts the app with its tray icon: see "mcp-funnel tray --help".`,
		Example:           "  mcp-funnel\n  mcp-funnel status\n  mcp-funnel reconnect github",
		Version:           buildVersion(),
		Args:              knownCommand,
		RunE:              func(cmd *cobra.Command, args []string) error { return tray.RunE(cmd, args) },
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.Flags().AddFlagSet(tray.Flags())
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	addCommands(root, env, tray, serve)
	root.SetHelpCommand(newHelpCommand())
	root.SetHelpCommandGroupID(groupOther)
	guardArguments(root)
	return root
}

func addCommands(root *cobra.Command, env *environment, tray, serve *cobra.Command) {
	add := func(group, title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: group, Title: title})
		for _, cmd := range commands {
			cmd.GroupID = group
		}
		root.AddCommand(commands...)
	}
	add(groupApp, "The app:",
		tray, serve, newBridgeCommand(env), newStatusCommand(env), newReloadCommand(env), newQuitCommand(env),
		newAutostartCommand(env), newDemoCommand(env))
	add(groupServers, "Servers and tools:",
		newReconnectCommand(env), newSwitchCommand(env, true), newSwitchCommand(env, false),
		newEventsCommand(env), newLogsCommand(env), newToolsCommand(env), newCallCommand(env))
	add(groupOther, "Other:",
		newConnectCommand(env, true), newConnectCommand(env, false),
		newConfigCommand(env), newVersionCommand(env), newCompletionCommand(env))
	root.AddCommand(newHiddenServerCommand(env))
}

// addConfigFlag gives cmd the flag --config.
func addConfigFlag(cmd *cobra.Command, env *environment) {
	cmd.Flags().StringVar(&env.configFile, "config", "", "configuration `FILE` (default $MCP_FUNNEL_CONFIG, else the one of \"mcp-funnel config path\")")
}

// guardArguments makes every complaint about arguments one about usage, whoever
// wrote the check.
func guardArguments(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return asUsageError(cmd, check(cmd, args)) }
	}
	for _, sub := range cmd.Commands() {
		guardArguments(sub)
	}
}

// flagError words an error of the flag parser.
func flagError(cmd *cobra.Command, err error) error {
	// In "mcp-funnel statsu --json" the command is what is wrong, not the flag.
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return knownCommand(cmd, args)
	}
	return asUsageError(cmd, err)
}

// knownCommand takes no arguments: one that is there is a mistyped command.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	hint := ""
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		hint = "; did you mean " + strings.Join(similar, " or ") + "?"
	}
	return usageError(cmd, "unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
}

// noArguments is for commands that take flags only.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError(cmd, "%q takes no arguments, but was given %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// oneArgument is for commands that take exactly one argument, called name in
// their usage line.
func oneArgument(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usageError(cmd, "%s is missing", name)
		case len(args) > 1:
			return usageError(cmd, "only one %s can be given, but there is also %q", name, args[1])
		}
		return nil
	}
}

// newHelpCommand is cobra's help command, except that an unknown topic is an error.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show the help of a command",
		Example: "  mcp-funnel help status",
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil {
				return asUsageError(cmd, err)
			}
			if topic.HasSubCommands() && len(rest) > 0 {
				return knownCommand(topic, rest)
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
	}
}
