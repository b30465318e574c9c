package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"mcp-funnel/core/jsonrpc"
)

func newCallCommand(env *environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "call TOOL [JSON | KEY=VALUE...]",
		Short: "Call one tool and print its result",
		Long: `Call a tool, by the name that "mcp-funnel tools" shows, and print its result: as
text if it is nothing but text, else as JSON. An error result goes to stderr, with
exit code 1.

The arguments are one JSON object, - to read it from stdin, or KEY=VALUE pairs. A
VALUE that is JSON (a number, true, false, null, "text", [...], {...}) is taken as
that, everything else as text. To give digits as text, quote them: id='"42"'.

A tool may take its time; Ctrl-C gives the call up.`,
		Example: `  mcp-funnel call github__search_issues '{"query":"is:open"}'
  mcp-funnel call github__search_issues query=is:open per_page=5
  mcp-funnel call github__search_issues - < arguments.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(cmd, "TOOL is missing")
			}
			return nil
		},
		ValidArgsFunction: completeTools(),
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments, err := parseArguments(args[1:], env.stdin)
			if err != nil {
				return asUsageError(cmd, err)
			}
			return callTool(cmd.Context(), env, args[0], arguments, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON, with all that the server sent")
	return cmd
}

// callTool calls the tool and prints what came of it.
func callTool(ctx context.Context, env *environment, tool string, arguments json.RawMessage, asJSON bool) error {
	c, err := dialControl(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	folder, err := os.Getwd()
	if err != nil {
		folder = "" // it is gone; only servers with an instance for each project need it
	}
	raw, err := c.askPatiently(ctx, "call", map[string]any{"tool": tool, "arguments": arguments, "folder": folder})
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	var called struct{ Response json.RawMessage }
	if err := decode(raw, &called); err != nil {
		return err
	}
	response, err := jsonrpc.Parse(called.Response)
	if err != nil {
		return fmt.Errorf("reading the server's response: %w", err)
	}
	result, err := answer(response)
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	return printResult(env, tool, result, asJSON)
}

// printResult prints the result of a call; one that is an error goes to stderr.
func printResult(env *environment, tool string, result json.RawMessage, asJSON bool) error {
	var outcome struct {
		Content []struct{ Type, Text string }
		IsError bool
	}
	if err := json.Unmarshal(result, &outcome); err != nil {
		outcome.Content = nil // of a shape we do not know: shown as it is
	}
	var texts []string
	for _, block := range outcome.Content {
		if block.Type == "text" {
			texts = append(texts, strings.TrimSuffix(block.Text, "\n"))
		}
	}
	text, onlyText := strings.Join(texts, "\n"), len(texts) > 0 && len(texts) == len(outcome.Content)
	if !onlyText {
		text = indented(result)
	}
	if asJSON {
		if _, err := fmt.Fprintf(env.stdout, "%s\n", result); err != nil {
			return err
		}
	}
	switch {
	case outcome.IsError:
		return fmt.Errorf("%s: %w", tool, errors.New(text))
	case asJSON:
		return nil
	}
	_, err := fmt.Fprintln(env.stdout, text)
	return err
}

// indented is raw JSON for people.
func indented(raw json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return string(raw)
	}
	return out.String()
}
