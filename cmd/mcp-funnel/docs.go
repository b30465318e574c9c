//go:build docs

// With the tag "docs" this package is another program: it writes what packages hold
// besides the program itself, made from the same commands and the same drawings. The
// program that is shipped links nothing of it.

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"mcp-funnel/assets"
)

// main writes into the folder that is its argument, in the layout that folders below
// /usr/share and ~/.local/share have.
func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: %s FOLDER", os.Args[0]))
	}
	root := newRootCommand(&environment{stdin: strings.NewReader(""), stdout: io.Discard, stderr: os.Stderr})
	for _, write := range []func(dir string, root *cobra.Command) error{writeManual, writeCompletions, writeIcons} {
		if err := write(os.Args[1], root); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "docs:", err)
	os.Exit(exitFailed) //nolint:forbidigo // it is main that ends
}

// manualSections are what the manual says beyond what the commands say of themselves.
const manualSections = `

# EXIT STATUS

**0**: fine. **1**: failed. **2**: wrong usage. **3**: no instance is running. **4**: the configuration is invalid.

# FILES

**$XDG_CONFIG_HOME/mcp-funnel/config.json**
:   The configuration, in ~/.config if the variable is not set.

**$XDG_STATE_HOME/mcp-funnel/**
:   Logs, the last good lists of tools, and which servers are switched off; in ~/.local/state if the variable is not set.

**$XDG_RUNTIME_DIR/mcp-funnel/**
:   The socket, the lock and the process ID of the running instance.

# ENVIRONMENT

**MCP_FUNNEL_CONFIG**
:   Another configuration file.

**SHELL**
:   The login shell, which is asked once for the PATH that servers get. Its start-up files can tell by MCP_FUNNEL_RESOLVING_ENVIRONMENT.
`

// writeManual writes a page for each command.
func writeManual(dir string, root *cobra.Command) error {
	date, err := sourceDate()
	if err != nil {
		return err
	}
	dir = filepath.Join(dir, "man", "man1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root.Long += manualSections
	root.DisableAutoGenTag = true
	return doc.GenManTree(root, &doc.GenManHeader{
		Section: "1", Date: &date, Source: "MCP Funnel " + buildVersion(), Manual: "User Commands",
	}, dir)
}

// sourceDate is what the pages are dated: SOURCE_DATE_EPOCH, in seconds since 1970,
// so that the same source makes the same files.
func sourceDate() (time.Time, error) {
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(epoch, 0).UTC(), nil
}

// writeCompletions writes what `completion SHELL` prints, to where shells look.
func writeCompletions(dir string, _ *cobra.Command) error {
	for shell, name := range map[string]string{
		"bash": "bash-completion/completions/mcp-funnel",
		"zsh":  "zsh/site-functions/_mcp-funnel",
		"fish": "fish/vendor_completions.d/mcp-funnel.fish",
	} {
		var script bytes.Buffer
		if run(context.Background(), []string{"completion", shell}, strings.NewReader(""), &script, os.Stderr) != 0 {
			return fmt.Errorf("making the completion for %s failed", shell)
		}
		if err := writeFile(filepath.Join(dir, name), script.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// writeIcons writes the app's icon in the sizes of the hicolor theme.
func writeIcons(dir string, _ *cobra.Command) error {
	for _, size := range []int{16, 22, 24, 32, 48, 64, 128, 256, 512} {
		name := fmt.Sprintf("icons/hicolor/%dx%d/apps/mcp-funnel.png", size, size)
		if err := writeFile(filepath.Join(dir, name), assets.AppIcon(size)); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
