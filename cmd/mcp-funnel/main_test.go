package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"mcp-funnel/core"
)

// TestMain makes this test binary the program itself for scripts, and fails tests
// that leave goroutines behind.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"mcp-funnel": main, "faulty": faulty, "witness": witness, "odd": odd})
}

type leakChecked struct{ tests *testing.M }

func (l leakChecked) Run() int {
	code := l.tests.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// TestScripts runs the command line against testdata/script, each script with a
// home, folders and an instance of its own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               isolate,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"eventually": eventually,
			"prefixbom":  prefixBOM,
			"logfile":    logFile,
		},
	})
}

// isolate gives a script private folders. The runtime folder lies in /tmp, for the
// path of a socket has to be short.
func isolate(env *testscript.Env) error {
	runtimeDir, err := os.MkdirTemp("/tmp", "mcpf")
	if err != nil {
		return err
	}
	env.Defer(func() { _ = os.RemoveAll(runtimeDir) })
	home := filepath.Join(env.WorkDir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	program, err := exec.LookPath("mcp-funnel")
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		// A PATH with nothing but the program, for scripts that need one.
		"PROGRAM_PATH": filepath.Dir(program),
		"HOME":         home, "USERPROFILE": home, "LOCALAPPDATA": runtimeDir,
		"XDG_RUNTIME_DIR": runtimeDir,
		"XDG_CONFIG_HOME": filepath.Join(env.WorkDir, "config"),
		"XDG_STATE_HOME":  filepath.Join(env.WorkDir, "state"),
		"XDG_CACHE_HOME":  filepath.Join(env.WorkDir, "cache"),
		"XDG_DATA_HOME":   filepath.Join(env.WorkDir, "data"),
		"SHELL":           "/bin/sh",
		// With -race a process would wait a second before it ends.
		"GORACE": "atexit_sleep_ms=0",
	} {
		env.Setenv(name, value)
	}
	return nil
}

// exits CODE PROGRAM ARGS... fails unless the program ends with that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	code := 0
	var failed *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &failed) {
		code = failed.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// patience is how long something may take on a machine that is busy.
const patience = 20 * time.Second

// eventually REGEXP PROGRAM ARGS... runs the program until the pattern is found in
// its stdout.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually REGEXP PROGRAM ARGS...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		// It may fail until what it asks for is there.
		_ = ts.Exec(args[1], args[2:]...)
		if pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no %q on stdout after %v", args[0], patience)
		}
	}
}

// prefixBOM FILE puts a byte order mark before the file's content.
func prefixBOM(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(path, []byte("\xEF\xBB\xBF"+ts.ReadFile(path)), 0o600))
}

// logFile NAME FILE makes FILE the log of the server NAME.
func logFile(ts *testscript.TestScript, _ bool, args []string) {
	path := core.ServerLogPath(filepath.Join(ts.Getenv("XDG_STATE_HOME"), "mcp-funnel"), args[0])
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o700))
	ts.Check(os.WriteFile(path, []byte(ts.ReadFile(args[1])), 0o600))
}
