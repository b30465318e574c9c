package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"mcp-funnel/tray/autostart"
)

func newAutostartCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "autostart",
		Short: "Start the app at login, or not",
		Long: `Switch on or off that the desktop starts the app when you log in, or say which of
the two it is. Each prints "on" or "off" and the file in which that is said.`,
		Example: "  mcp-funnel autostart on\n  mcp-funnel autostart status",
		Args:    knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError(cmd, "say what to do: on, off or status")
		},
	}
	change := func(use, short string, change func(*autostart.Entry) error) {
		cmd.AddCommand(&cobra.Command{
			Use: use, Short: short, Example: "  mcp-funnel autostart " + use, Args: noArguments,
			RunE: func(*cobra.Command, []string) error { return runAutostart(env, change) },
		})
	}
	change("on", "Start the app at login", (*autostart.Entry).Enable)
	change("off", "Do not start the app at login", (*autostart.Entry).Disable)
	change("status", "Print whether the app is started at login", func(*autostart.Entry) error { return nil })
	return cmd
}

// runAutostart makes a change and prints how things stand then.
func runAutostart(env *environment, change func(*autostart.Entry) error) error {
	entry, err := openAutostart()
	if err != nil {
		return err
	}
	if err := change(entry); err != nil {
		return err
	}
	now, err := entry.Status()
	if err != nil {
		return err
	}
	word := "off"
	if now.On {
		word = "on"
	}
	_, err = fmt.Fprintf(env.stdout, "%s %s\n", word, now.File)
	return err
}

// openAutostart returns the entry of this user and this program.
func openAutostart() (*autostart.Entry, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("finding the home folder: %w", err)
	}
	program, err := autostart.Program(os.Getenv)
	if err != nil {
		return nil, err
	}
	return autostart.New(autostart.Options{Program: program, Home: home, Environ: os.Getenv}), nil
}
