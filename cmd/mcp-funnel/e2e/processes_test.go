//go:build e2e && linux

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// process is one that bears a user's mark.
type process struct {
	pid     int
	command string
}

func (p process) String() string { return fmt.Sprintf("%d %s", p.pid, p.command) }

// kill ends the process as `kill -9` does.
func (p process) kill() { _ = syscall.Kill(p.pid, syscall.SIGKILL) }

// processes are all that were started by this user, however deep, and even when
// whoever started them is gone: the mark is in the environment, which every process
// hands on. Zombies have none.
func (u *user) processes() []process {
	return u.marked(u.dir)
}

// marked are the processes with that mark.
func (u *user) marked(mark string) []process {
	u.t.Helper()
	variable := []byte("MCP_FUNNEL_E2E=" + mark + "\x00")
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		u.t.Fatal(err)
	}
	var found []process
	for _, folder := range folders {
		environ, err := os.ReadFile(filepath.Join(folder, "environ"))
		if err != nil || !bytes.Contains(environ, variable) {
			continue // ended meanwhile, or is somebody else's
		}
		command, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			u.t.Fatal(err)
		}
		found = append(found, process{pid, strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))})
	}
	return found
}

// running are the processes whose command line contains text.
func (u *user) running(text string) []process {
	var found []process
	for _, p := range u.processes() {
		if strings.Contains(p.command, text) {
			found = append(found, p)
		}
	}
	return found
}

// group are the processes of a process group.
func (u *user) group(leader int) []process {
	var found []process
	for _, p := range u.processes() {
		if group, err := syscall.Getpgid(p.pid); err == nil && group == leader {
			found = append(found, p)
		}
	}
	return found
}
