package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mcp-funnel/core/catalog"
)

// toolList is the answer to `tools`.
type toolList struct {
	Tools []catalog.Entry `json:"tools"`
}

func newToolsCommand(env *environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tools [QUERY...]",
		Short: "List the tools that clients see",
		Long: `List the tools that a client sees, each with its server and the name it has
there. With words, only the tools in whose names or description all of them are
found.`,
		Example:           "  mcp-funnel tools\n  mcp-funnel tools create issue\n  mcp-funnel tools --json",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return listTools(cmd.Context(), env, strings.Join(args, " "), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

// askTools asks for the tools that query is found in; raw is the answer as it came.
func askTools(ctx context.Context, c *control, query string) (list toolList, raw json.RawMessage, err error) {
	if raw, err = c.ask(ctx, "tools", map[string]string{"query": query}); err != nil {
		return list, nil, err
	}
	return list, raw, decode(raw, &list)
}

// descriptionWidth is how many characters of a description a line of the list has.
const descriptionWidth = 70

func listTools(ctx context.Context, env *environment, query string, asJSON bool) error {
	c, err := dialControl(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	list, raw, err := askTools(ctx, c, query)
	switch {
	case err != nil:
		return err
	case asJSON:
		return writeIndented(env.stdout, raw)
	case len(list.Tools) == 0:
		_, err = fmt.Fprintln(env.stderr, "mcp-funnel: there are no such tools")
		return err
	}
	rows := [][]string{{"NAME", "SERVER", "ITS NAME THERE", "DESCRIPTION"}}
	for _, tool := range list.Tools {
		rows = append(rows, []string{
			oneLine(tool.Name), oneLine(tool.Server), oneLine(tool.Tool), shorten(tool.Description, descriptionWidth),
		})
	}
	_, err = fmt.Fprintln(env.stdout, strings.Join(table(rows), "\n"))
	return err
}
