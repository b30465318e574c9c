//go:build e2e && linux

// Package e2e runs the program against parts that nobody here wrote: real servers,
// real clients, a real panel. `make e2e` runs all scenarios, `make e2e T=claude`
// or `T=claude/call` some.
//
// Each scenario is a user of its own (see [user]): home, folders, config and
// instance. It prints one line, and leaves its logs in the folder e2e-out when it
// fails. In each of them, after `mcp-funnel quit`, no process may be left that was
// started there.
//
// The parts are fetched once, at pinned versions (see package parts). After that no
// scenario needs a network.
package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-funnel/cmd/mcp-funnel/e2e/parts"
)

// patience is how long something may take on a machine that is busy.
const patience = 60 * time.Second

// The program under test, as this run uses it, and the folder for what is kept.
var (
	program string
	outDir  string
)

// report has the line of every scenario, to print them once more in the end.
var report struct {
	mu    sync.Mutex
	lines []string
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

// run prepares what all scenarios share. The program is copied, so that a build in
// the meantime does not change it under them.
func run(m *testing.M) (code int, err error) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		return 0, err
	}
	if outDir = os.Getenv("E2E_OUT"); outDir == "" {
		outDir = filepath.Join(root, "e2e-out")
	}
	content, err := os.ReadFile(filepath.Join(root, "bin", "mcp-funnel"))
	if err != nil {
		return 0, fmt.Errorf("reading the program (make e2e builds it): %w", err)
	}
	dir, err := os.MkdirTemp("/tmp", "e2e")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program = filepath.Join(dir, "mcp-funnel")
	if err := os.WriteFile(program, content, 0o700); err != nil {
		return 0, err
	}
	code = m.Run()
	if len(report.lines) == 0 && code == 0 {
		return 0, errors.New("there is no such scenario; those there are: servers, claude, clients, panel, conformance, bridge, and NAME/PART as in claude/call")
	}
	fmt.Println()
	for _, line := range report.lines {
		fmt.Println(line)
	}
	return code, nil
}

// play runs one scenario as a sub-test, with a user of its own who has the given
// config. The story returns what it proved.
func play(t *testing.T, name, config string, wanted []parts.Part, story func(*user) string) {
	t.Run(name, func(t *testing.T) {
		full := strings.ToLower(strings.TrimPrefix(t.Name(), "Test"))
		began, proved := time.Now(), ""
		t.Cleanup(func() {
			took := time.Since(began).Seconds()
			switch {
			case t.Skipped():
				tell("skip  %-18s         %s", full, proved)
			case t.Failed():
				tell("FAIL  %-18s %6.1f s  its logs are in %s", full, took, filepath.Join(outDir, full))
			default:
				tell("ok    %-18s %6.1f s  %s", full, took, proved)
			}
		})
		fetch(t, wanted, &proved)
		began = time.Now() // what was fetched does not count
		u := newUser(t, full, config)
		proved = story(u)
		u.quit()
	})
}

// skip skips a scenario for a reason that it also reports. Where nobody would see
// that, in CI, it fails.
func skip(t *testing.T, proved *string, reason string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(reason)
	}
	*proved = reason
	t.Skip(reason)
}

func tell(format string, args ...any) {
	line := fmt.Sprintf("e2e: "+format, args...)
	fmt.Println(line)
	report.mu.Lock()
	defer report.mu.Unlock()
	report.lines = append(report.lines, line)
}
