package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"mcp-funnel/core"
	"mcp-funnel/core/clients"
)

// connection is what the commands connect and disconnect are told.
type connection struct {
	client, name, scope string
	// connect is false to take the entry out.
	connect bool
	yes     bool
}

// newConnectCommand makes the command connect or, with connect false, disconnect.
func newConnectCommand(env *environment, connect bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "connect CLIENT",
		Short: "Put the bridge into an MCP client's configuration",
		Long: `Let an MCP client run "mcp-funnel bridge". CLIENT is claude-code.

Shows what will be changed and asks; without a terminal --yes is needed. For Claude
Code it runs "claude mcp add" where that is installed, and else adds one entry to
.claude.json, leaving all other bytes of the file as they are. An entry of the same
name that is not ours is never touched. Running it again is safe: it mends the entry
when the program has moved.`,
		Example: `  mcp-funnel connect claude-code
  mcp-funnel connect claude-code --yes
  mcp-funnel connect claude-code --name tools`,
	}
	if !connect {
		cmd = &cobra.Command{
			Use:   "disconnect CLIENT",
			Short: "Take the bridge out of an MCP client's configuration",
			Long: `Take out just the entry that "mcp-funnel connect" made. CLIENT is claude-code.

Shows what will be changed and asks; without a terminal --yes is needed. If nothing
else changed since in a file that "mcp-funnel connect" edited, the file is afterwards
what it was before, byte for byte.`,
			Example: `  mcp-funnel disconnect claude-code
  mcp-funnel disconnect claude-code --yes
  mcp-funnel disconnect claude-code --name tools`,
		}
	}
	o := connection{connect: connect}
	cmd.Args = oneArgument("CLIENT")
	cmd.ValidArgs = clients.Known()
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.client = args[0]
		// Signals are not caught: Ctrl-C has to end a wait for the answer.
		return changeClient(cmd.Context(), cmd, env, o)
	}
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do it without asking")
	cmd.Flags().StringVar(&o.name, "name", clients.DefaultName, "the `NAME` of the client's entry")
	cmd.Flags().StringVar(&o.scope, "scope", "user", "where the client keeps the entry; there is only \"user\": all projects of this user")
	return cmd
}

// changeClient connects or disconnects a client and says what was done.
func changeClient(ctx context.Context, cmd *cobra.Command, env *environment, o connection) error {
	switch {
	case !clients.ValidName(o.name):
		return usageError(cmd, "--name has to be up to 64 letters, digits, - and _, but is %q", o.name)
	case o.scope != "user":
		return usageError(cmd, "--scope can only be user, but is %q", o.scope)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("finding the home folder: %w", err)
	}
	client, err := clients.Find(o.client, clients.Options{
		Home: home, StateDir: core.StateDir(), Getenv: os.Getenv, LookPath: exec.LookPath,
	})
	if err != nil {
		return asUsageError(cmd, err) // it is unknown
	}
	program, err := programPath()
	if err != nil {
		return err
	}
	agree := func(change clients.Change) error { return askForConsent(cmd, env, o, change) }
	entry := clients.BridgeEntry(o.name, program)
	var done clients.Change
	if o.connect {
		done, err = client.Connect(ctx, entry, agree)
	} else {
		done, err = client.Disconnect(ctx, o.name, program, agree)
	}
	if _, foreign := errors.AsType[*clients.ForeignError](err); foreign && o.connect {
		return fmt.Errorf("%w; choose another name with --name, or remove that entry yourself", err)
	}
	if err != nil {
		return err
	}
	if done.Unconfirmed {
		_, _ = fmt.Fprintf(env.stderr, "mcp-funnel: warning: %q reported success, but %s does not show it\n", strings.Join(done.Tool, " "), done.File)
	}
	_, err = fmt.Fprint(env.stdout, describeChange(o, entry, done))
	return err
}

// describeChange says in one line what was done, and in a second one what to do next.
func describeChange(o connection, entry clients.Entry, done clients.Change) string {
	place := fmt.Sprintf("mcpServers.%s in %s", o.name, done.File)
	runs := strings.Join(append([]string{entry.Command}, entry.Args...), " ")
	const next = "Restart running sessions of Claude Code; /mcp shows its servers.\n"
	switch done.Kind {
	case clients.Added:
		return fmt.Sprintf("%s connected: %s runs %s\n%s", o.client, place, runs, next)
	case clients.Updated:
		return fmt.Sprintf("%s updated: %s runs %s\n%s", o.client, place, runs, next)
	case clients.Removed:
		return fmt.Sprintf("%s disconnected: removed %s\n%s", o.client, place, next)
	case clients.Unchanged:
	}
	if o.connect {
		return fmt.Sprintf("%s is connected already: %s\n", o.client, place)
	}
	return fmt.Sprintf("%s is not connected: there is no %s\n", o.client, place)
}

// askForConsent shows the change and returns nil if the user wants it.
func askForConsent(cmd *cobra.Command, env *environment, o connection, change clients.Change) error {
	if o.yes {
		return nil
	}
	if _, err := fmt.Fprint(env.stderr, describePlan(change)); err != nil {
		return err
	}
	if !canAsk(env.stdin) {
		return usageError(cmd, "there is no terminal to ask on; nothing was changed: give --yes to do it without asking")
	}
	if _, err := fmt.Fprint(env.stderr, "Go on? [y/N] "); err != nil {
		return err
	}
	answer, err := bufio.NewReader(env.stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was changed")
}

// describePlan is what is to be changed, like a diff.
func describePlan(change clients.Change) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s, mcpServers:\n", change.File)
	if change.Before != "" {
		fmt.Fprintf(&out, "- %s\n", change.Before)
	}
	if change.After != "" {
		fmt.Fprintf(&out, "+ %s\n", change.After)
	}
	if len(change.Tool) > 0 {
		fmt.Fprintf(&out, "by running: %s\n", strings.Join(change.Tool, " "))
	}
	return out.String()
}

// programPath is the path by which others should start this program: one that still
// holds after an update. That is the place in PATH where it is found, often a link to
// the present version, and not what the link leads to.
func programPath() (string, error) {
	executable, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding the program's file: %w", err)
	}
	if image := appImage(executable); image != "" {
		return image, nil
	}
	self, selfErr := os.Stat(executable)
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue // depends on where the client runs
		}
		found, err := exec.LookPath(filepath.Join(dir, filepath.Base(os.Args[0])))
		if err != nil {
			continue
		}
		// An update may have taken our own file away: then this is its successor.
		if info, err := os.Stat(found); err == nil && (selfErr != nil || os.SameFile(self, info)) {
			return found, nil
		}
	}
	return executable, nil
}

// appImage is the AppImage that holds the executable, empty where it lies in none. Its
// own path is in a folder that goes when the program ends.
func appImage(executable string) string {
	image, mounted := os.Getenv("APPIMAGE"), os.Getenv("APPDIR")
	if image == "" || mounted == "" {
		return ""
	}
	if inside, err := filepath.Rel(mounted, executable); err != nil || !filepath.IsLocal(inside) {
		return "" // the variables are those of another program that started this one
	}
	return image
}
