//go:build e2e && linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-funnel/cmd/mcp-funnel/e2e/parts"
	"mcp-funnel/core"
	"mcp-funnel/core/status"
)

// user is somebody with a home, folders, a config and an instance of their own.
type user struct {
	t *testing.T
	// dir holds everything; its path is short, for that of a socket has to be.
	dir string
	// out is kept after a failure.
	out     string
	environ []string
	// launcher runs the program as this user, whatever environment it is given:
	// many clients hand on no more than HOME and PATH.
	launcher string
	// ended: the instance was ended and checked.
	ended bool
}

// newUser makes a user with the given config, in which $DIR, $NODE, $PROGRAM and
// $CACHE are replaced.
func newUser(t *testing.T, name, config string) *user {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "e2e")
	if err != nil {
		t.Fatal(err)
	}
	u := &user{t: t, dir: dir, out: filepath.Join(outDir, name), launcher: filepath.Join(dir, "bin", "mcp-funnel")}
	t.Cleanup(u.cleanUp)
	if err := os.RemoveAll(u.out); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{u.out, u.path("run"), u.path("home"), u.path("bin"), u.path("tmp"), u.path("config/mcp-funnel")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	u.environ = []string{
		// Also a mark on every process that is started here, see processes.
		"MCP_FUNNEL_E2E=" + dir,
		"PATH=" + filepath.Dir(parts.NodeProgram()) + ":" + os.Getenv("PATH"),
		"HOME=" + u.path("home"), "SHELL=/bin/sh", "LANG=C.UTF-8", "TMPDIR=" + u.path("tmp"),
		"XDG_RUNTIME_DIR=" + u.path("run"), "XDG_CONFIG_HOME=" + u.path("config"), "XDG_STATE_HOME=" + u.path("state"),
		"XDG_CACHE_HOME=" + u.path("cache"), "XDG_DATA_HOME=" + u.path("data"),
	}
	u.write("config/mcp-funnel/config.json", strings.NewReplacer(
		"$DIR", dir, "$NODE", parts.NodeProgram(), "$PROGRAM", program, "$CACHE", parts.CacheDir()).Replace(config))
	u.writeLauncher()
	return u
}

// writeLauncher writes the script that runs the program in this user's environment.
func (u *user) writeLauncher() {
	u.t.Helper()
	var script strings.Builder
	script.WriteString("#!/bin/sh\n")
	for _, variable := range u.environ {
		name, value, _ := strings.Cut(variable, "=")
		fmt.Fprintf(&script, "export %s='%s'\n", name, value)
	}
	fmt.Fprintf(&script, "exec '%s' \"$@\"\n", program)
	u.write("bin/mcp-funnel", script.String())
	if err := os.Chmod(u.launcher, 0o700); err != nil {
		u.t.Fatal(err)
	}
}

func (u *user) path(name string) string { return filepath.Join(u.dir, name) }

// write writes a file below the user's folder.
func (u *user) write(name, text string) {
	u.t.Helper()
	if err := os.WriteFile(u.path(name), []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

// command prepares a command of the user.
func (u *user) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = u.environ, u.path("home")
	return cmd
}

// log opens a file for output that is kept after a failure.
func (u *user) log(name string) *os.File {
	u.t.Helper()
	file, err := os.OpenFile(filepath.Join(u.out, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { _ = file.Close() })
	return file
}

// start starts a command in the background; its output is kept as NAME.out and
// NAME.err. The returned channel has its end.
func (u *user) start(name string, cmd *exec.Cmd) <-chan error {
	u.t.Helper()
	cmd.Stderr = u.log(name + ".err")
	if cmd.Stdout == nil {
		cmd.Stdout = u.log(name + ".out")
	}
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { end <- cmd.Wait() }()
	return end
}

// must runs a command to its end, which has to be a good one, and returns its stdout;
// the output is kept as NAME.out and NAME.err.
func (u *user) must(name string, cmd *exec.Cmd) string {
	u.t.Helper()
	out, err := u.finish(name, cmd)
	if err != nil {
		u.t.Fatalf("%s: %v", name, err)
	}
	return out
}

// finish is must for a command that may end badly.
func (u *user) finish(name string, cmd *exec.Cmd) (string, error) {
	u.t.Helper()
	var out bytes.Buffer
	cmd.Stdout = &out
	end := u.start(name, cmd)
	var err error
	select {
	case err = <-end:
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		err = fmt.Errorf("%w after %v", <-end, patience)
	}
	_, _ = u.log(name + ".out").Write(out.Bytes())
	return out.String(), err
}

// serve starts the app without an icon and waits until all servers are connected.
func (u *user) serve() core.Report {
	u.t.Helper()
	u.start("app", u.command(program, "serve"))
	return u.status("all servers connected", func(r core.Report) bool {
		for _, s := range r.Servers {
			if s.State != status.Connected {
				return false
			}
		}
		return len(r.Servers) > 0
	})
}

// status waits until the app's status is as wanted and returns it.
func (u *user) status(what string, wanted func(core.Report) bool) core.Report {
	u.t.Helper()
	var report core.Report
	u.eventually(what, func() bool {
		out, err := u.command(program, "status", "--json").Output()
		if err != nil {
			return false
		}
		report = core.Report{}
		return json.Unmarshal(out, &report) == nil && wanted(report)
	})
	return report
}

// server waits until the named server is connected, by another process than not,
// and returns it.
func (u *user) server(name string, not int) status.Server {
	u.t.Helper()
	var found status.Server
	u.status(name+" connected", func(r core.Report) bool {
		for _, s := range r.Servers {
			if s.Name == name && s.State == status.Connected && s.PID != not {
				found = s
				return true
			}
		}
		return false
	})
	return found
}

// eventually polls until something holds.
func (u *user) eventually(what string, holds func() bool) {
	u.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			u.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// quit ends the instance and checks that nothing of it is left. No process may
// outlive `mcp-funnel quit`, whoever started it; clients have ended before. A
// second call does nothing.
func (u *user) quit() {
	u.t.Helper()
	if u.ended {
		return
	}
	u.ended = true
	u.must("quit", u.command(program, "quit"))
	u.nothingLeft()
}

// nothingLeft checks that no process is left of an instance that has quit.
func (u *user) nothingLeft() {
	u.t.Helper()
	// The app itself ends right after it answered.
	const grace = 2 * time.Second
	left := u.processes()
	for deadline := time.Now().Add(grace); len(left) > 0 && time.Now().Before(deadline); left = u.processes() {
		time.Sleep(20 * time.Millisecond)
	}
	for _, p := range left {
		u.t.Errorf("left behind: %s", p)
	}
}

// cleanUp ends what a failed scenario left, and keeps or removes its logs.
func (u *user) cleanUp() {
	for range 3 { // one that was just started may have missed the first round
		for _, p := range append(u.processes(), u.marked(u.desktopMark())...) {
			p.kill()
		}
	}
	if u.t.Failed() {
		if err := os.CopyFS(filepath.Join(u.out, "state"), os.DirFS(u.path("state"))); err != nil {
			u.t.Log("keeping the app's logs:", err)
		}
		_ = os.CopyFS(filepath.Join(u.out, "config"), os.DirFS(u.path("config")))
	} else {
		u.dropLogs()
	}
	if err := os.RemoveAll(u.dir); err != nil {
		u.t.Log(err)
	}
}

// dropLogs removes the output of a scenario that went well, and keeps pictures.
func (u *user) dropLogs() {
	_ = filepath.WalkDir(u.out, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) != ".png" {
			return os.Remove(path)
		}
		return err
	})
	_ = os.Remove(u.out)               // unless there are pictures
	_ = os.Remove(filepath.Dir(u.out)) // unless others are there
}
