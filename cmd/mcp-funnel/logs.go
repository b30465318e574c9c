package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcp-funnel/core"
)

func newLogsCommand(env *environment) *cobra.Command {
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Show what a server wrote to stderr",
		Long: `Show the log of a server: what it wrote to stderr and what the funnel noted about
it. Also works while no instance is running.`,
		Example: "  mcp-funnel logs github\n  mcp-funnel logs github -f -n 20",
		Args: func(cmd *cobra.Command, args []string) error {
			if lines < 0 {
				return usageError(cmd, "-n cannot be below 0")
			}
			return oneArgument("NAME")(cmd, args)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return loggedServers(core.StateDir()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return showLog(cmd.Context(), env, args[0], lines, follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on and show new lines, until Ctrl-C")
	cmd.Flags().IntVarP(&lines, "lines", "n", 100, "begin with the last `N` lines")
	return cmd
}

// showLog prints the end of a server's log and, with follow, what comes after it.
func showLog(ctx context.Context, env *environment, name string, lines int, follow bool) error {
	if follow {
		var stop context.CancelFunc
		ctx, stop = untilInterrupted(ctx)
		defer stop()
	}
	stateDir := core.StateDir()
	t := &tail{path: core.ServerLogPath(stateDir, name), out: env.stdout}
	if err := t.open(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return noLogError(stateDir, name)
		}
		return fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer t.close()
	if err := t.begin(lines); err != nil {
		return fmt.Errorf("reading the log of %s: %w", name, err)
	}
	if !follow {
		return nil
	}
	return t.follow(ctx)
}

// noLogError says that name has no log and who has.
func noLogError(stateDir, name string) error {
	known := loggedServers(stateDir)
	if len(known) == 0 {
		return fmt.Errorf("there is no log of a server %q, nor of any other, in %s", name, filepath.Join(stateDir, "log"))
	}
	return fmt.Errorf("there is no log of a server %q; there are logs of %s", name, strings.Join(known, ", "))
}

// logName is what [core.ServerLogPath] makes of a server's name. Rotated logs have
// a time between the hash and the ending.
var logName = regexp.MustCompile(`^server-(.+)-[0-9a-f]{8}\.log$`)

// loggedServers are the names of the servers that have a log, as far as file names
// tell them.
func loggedServers(stateDir string) []string {
	// A folder that cannot be read has no logs for us.
	entries, _ := os.ReadDir(filepath.Join(stateDir, "log"))
	var names []string
	for _, entry := range entries {
		if found := logName.FindStringSubmatch(entry.Name()); found != nil {
			names = append(names, found[1])
		}
	}
	return names
}

// pollInterval is how often a followed log is looked at.
const pollInterval = 250 * time.Millisecond

// tail prints a log that grows and is rotated, that is renamed and begun anew.
type tail struct {
	path string
	out  io.Writer
	file *os.File // open until close
}

func (t *tail) open() error {
	file, err := openShared(t.path)
	if err != nil {
		return err
	}
	t.file = file
	return nil
}

func (t *tail) close() { _ = t.file.Close() } // it was only read

// begin prints the last lines of the file and leaves it at its end.
func (t *tail) begin(lines int) error {
	end, err := t.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	start, err := lastLines(t.file, end, lines)
	if err != nil {
		return err
	}
	if _, err := t.file.Seek(start, io.SeekStart); err != nil {
		return err
	}
	_, err = io.CopyN(t.out, t.file, end-start)
	return err
}

// lastLines is the offset at which the last lines of a file of size bytes begin.
// A last line that is not complete counts.
func lastLines(file io.ReaderAt, size int64, lines int) (int64, error) {
	const chunk = 32 << 10
	if lines == 0 {
		return size, nil
	}
	buffer := make([]byte, chunk)
	// The newline at the very end begins no line.
	for end := size - 1; end > 0; {
		start := max(0, end-chunk)
		part := buffer[:end-start]
		if _, err := file.ReadAt(part, start); err != nil {
			return 0, err
		}
		for len(part) > 0 {
			at := bytes.LastIndexByte(part, '\n')
			if at < 0 {
				break
			}
			if lines--; lines == 0 {
				return start + int64(at) + 1, nil
			}
			part = part[:at]
		}
		end = start
	}
	return 0, nil
}

// follow prints what is added until ctx ends.
func (t *tail) follow(ctx context.Context) error {
	ticks := time.NewTicker(pollInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		if err := t.more(); err != nil {
			return fmt.Errorf("following %s: %w", t.path, err)
		}
	}
}

// more prints what was added, also to the file that took the place of ours.
func (t *tail) more() error {
	// Asked first: what is written to the old file before it is renamed is read
	// below, and nothing is written to it afterwards.
	replaced, err := t.replaced()
	if err != nil {
		return err
	}
	if _, err := io.Copy(t.out, t.file); err != nil || !replaced {
		return err
	}
	t.close()
	if err := t.open(); err != nil {
		return err
	}
	_, err = io.Copy(t.out, t.file)
	return err
}

// replaced reports whether there is another file at the path now. A file that was
// cut short is read from its beginning.
func (t *tail) replaced() (bool, error) {
	mine, err := t.file.Stat()
	if err != nil {
		return false, err
	}
	current, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // between the renaming and the new file
	}
	if err != nil {
		return false, err
	}
	if !os.SameFile(mine, current) {
		return true, nil
	}
	at, err := t.file.Seek(0, io.SeekCurrent)
	if err == nil && mine.Size() < at {
		_, err = t.file.Seek(0, io.SeekStart)
	}
	return false, err
}
