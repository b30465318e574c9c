package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcp-funnel/core/config"
)

func newConfigCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Where the configuration is, and whether it is right",
		Example: "  mcp-funnel config path\n  mcp-funnel config check",
		Args:    knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError(cmd, "say what to do with the configuration: path or check")
		},
	}
	cmd.AddCommand(newConfigPathCommand(env), newConfigCheckCommand(env))
	return cmd
}

func newConfigPathCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "path",
		Short:   "Print where the configuration is",
		Long:    "Print the path of the configuration file, whether or not it exists.",
		Example: "  mcp-funnel config path\n  $EDITOR \"$(mcp-funnel config path)\"",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(env.stdout, env.configPath())
			return err
		},
	}
	addConfigFlag(cmd, env)
	return cmd
}

func newConfigCheckCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration",
		Long: `Read the configuration as the app does and print each finding with its place.
A problem keeps its server, or the whole file, from being used: the exit code is 4
then. A warning does not. Variables are taken from the environment of this command,
which may differ from that of the app.`,
		Example: "  mcp-funnel config check\n  mcp-funnel config check --config ./new.json",
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return checkConfig(env) },
	}
	addConfigFlag(cmd, env)
	return cmd
}

// finding is an issue with its weight: "problem" or "warning".
type finding struct {
	weight string
	issue  config.Issue
}

// String is the finding as a line: "config.json:12:5: problem: mcpServers.api: missing url".
func (f finding) String() string {
	place := f.issue.File
	if f.issue.Line > 0 {
		place += fmt.Sprintf(":%d:%d", f.issue.Line, f.issue.Column)
	}
	text := f.issue.Message
	if f.issue.Path != "" {
		text = f.issue.Path + ": " + text
	}
	return oneLine(fmt.Sprintf("%s: %s: %s", place, f.weight, text))
}

// checkConfig prints what is to be said about the configuration.
func checkConfig(env *environment) error {
	// Without a home folder entries that need one say so themselves.
	home, _ := os.UserHomeDir()
	loaded, err := config.Load(env.configPath(), config.Options{
		Lookup: os.LookupEnv, Home: home, BasePath: config.DefaultBasePath(home),
	})
	if broken, ok := errors.AsType[*config.ParseError](err); ok {
		return printFindings(env.stdout, []finding{{"problem", broken.Issue}})
	}
	if err != nil {
		return err
	}
	if err := printFindings(env.stdout, findings(loaded)); err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.stdout, verdict(loaded))
	return err
}

// findings are the problems and warnings, in the order of the files.
func findings(c *config.Config) []finding {
	var all []finding
	for _, server := range c.Servers {
		if server.Problem != nil {
			all = append(all, finding{"problem", *server.Problem})
		}
	}
	for _, warning := range c.Warnings {
		all = append(all, finding{"warning", warning})
	}
	slices.SortStableFunc(all, func(a, b finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(c.Files, a.issue.File), slices.Index(c.Files, b.issue.File)),
			cmp.Compare(a.issue.Line, b.issue.Line), cmp.Compare(a.issue.Column, b.issue.Column),
		)
	})
	return all
}

// printFindings prints one a line. Where one of them is a problem the error says so.
func printFindings(w io.Writer, all []finding) error {
	problems := 0
	for _, f := range all {
		if f.weight == "problem" {
			problems++
		}
		if _, err := fmt.Fprintln(w, f); err != nil {
			return err
		}
	}
	if problems > 0 {
		return &exitError{code: exitInvalidConfig, err: fmt.Errorf("the configuration has %s", count(problems, "problem"))}
	}
	return nil
}

// verdict is the last word on a configuration without problems.
func verdict(c *config.Config) string {
	servers := count(len(c.Servers), "server")
	if slices.Contains(c.Files, c.Path) {
		return fmt.Sprintf("%s: fine, %s", strings.Join(c.Files, " and "), servers)
	}
	missing := c.Path + ": there is no such file"
	if len(c.Files) == 0 {
		return missing + ", so there are no servers yet"
	}
	return fmt.Sprintf("%s; %s: fine, %s", missing, strings.Join(c.Files, " and "), servers)
}
