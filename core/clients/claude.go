package clients

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// toolTimeout is how long the client's own command may take; it takes a second.
const toolTimeout = time.Minute

// claudeFile is the file in which Claude Code keeps the servers of the scope "user".
func claudeFile(o Options) string {
	folder := o.Getenv("CLAUDE_CONFIG_DIR")
	// Where an old release left this one, it is still the one that counts.
	old := filepath.Join(cmp.Or(folder, filepath.Join(o.Home, ".claude")), ".config.json")
	if _, err := os.Stat(old); err == nil {
		return old
	}
	return filepath.Join(cmp.Or(folder, o.Home), ".claude.json")
}

// addCommand is the command line of Claude Code that adds the entry.
func addCommand(e Entry) []string {
	return append([]string{"claude", "mcp", "add", "--scope", "user", e.Name, "--", e.Command}, e.Args...)
}

// removeCommand is the command line of Claude Code that removes the entry.
func removeCommand(name string) []string {
	return []string{"claude", "mcp", "remove", "--scope", "user", name}
}

// runTool carries out a command line of the client's own command.
func (c *Client) runTool(ctx context.Context, line []string) error {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.tool, line[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// A child of it that keeps the pipe open must not hold us up.
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		said := cmp.Or(strings.Join(strings.Fields(out.String()), " "), "it said nothing")
		return fmt.Errorf("running %q: %w: %s", strings.Join(line, " "), err, said)
	}
	return nil
}
