package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newCompletionCommand(env *environment) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes commands in a shell",
		Long: `Print a script that lets your shell complete commands, flags and the names of
servers and tools. SHELL is one of ` + strings.Join(shells, ", ") + `.`,
		Example: `  bash:        source <(mcp-funnel completion bash)
  zsh:         mcp-funnel completion zsh > "${fpath[1]}/_mcp-funnel"
  fish:        mcp-funnel completion fish > ~/.config/fish/completions/mcp-funnel.fish
  PowerShell:  mcp-funnel completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := oneArgument("SHELL")(cmd, args); err != nil {
				return err
			}
			if !slices.Contains(shells, args[0]) {
				return usageError(cmd, "unknown shell %q: there are %s", args[0], strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch shell := args[0]; shell {
			case "bash":
				return root.GenBashCompletionV2(env.stdout, true)
			case "zsh":
				return root.GenZshCompletion(env.stdout)
			case "fish":
				return root.GenFishCompletion(env.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(env.stdout)
			default:
				return fmt.Errorf("no completion for %s", shell)
			}
		},
	}
}

// completionTimeout is how long somebody who pressed TAB waits for the instance.
const completionTimeout = time.Second

// completeServers completes names of servers that the running instance knows; up
// to limit of them, 0 for any number.
func completeServers(limit int) cobra.CompletionFunc {
	return completeWith(limit, func(ctx context.Context, c *control) ([]cobra.Completion, error) {
		now, _, err := askStatus(ctx, c)
		var names []cobra.Completion
		for _, server := range now.Servers {
			names = append(names, cobra.CompletionWithDesc(server.Name, server.State.Words()))
		}
		return names, err
	})
}

// completeTools completes the name of one tool.
func completeTools() cobra.CompletionFunc {
	return completeWith(1, func(ctx context.Context, c *control) ([]cobra.Completion, error) {
		list, _, err := askTools(ctx, c, "")
		var names []cobra.Completion
		for _, tool := range list.Tools {
			names = append(names, cobra.CompletionWithDesc(tool.Name, shorten(tool.Description, completionWidth)))
		}
		return names, err
	})
}

// completionWidth is how many characters of a description stand beside a name.
const completionWidth = 60

// completeWith asks the running instance for what can stand in the place of the
// next argument. Without an instance there is nothing to offer.
func completeWith(limit int, ask func(context.Context, *control) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const nothingElse = cobra.ShellCompDirectiveNoFileComp
		if limit > 0 && len(args) >= limit {
			return nil, nothingElse
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		c, err := dialControl(ctx)
		if err != nil {
			return nil, nothingElse
		}
		defer c.close()
		choices, err := ask(ctx, c)
		if err != nil {
			return nil, nothingElse
		}
		return slices.DeleteFunc(choices, func(choice cobra.Completion) bool {
			name, _, _ := strings.Cut(choice, "\t")
			return slices.Contains(args, name)
		}), nothingElse
	}
}
