//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// markVariable is in the environment of the app, and by inheritance of everything
// that it starts. Its value is the sandbox's folder.
const markVariable = "MCP_FUNNEL_FAULTS"

// tagVariable is what the app puts into the environment of each server; its value is
// in children.json as long as the app knows of it.
const tagVariable = "MCP_FUNNEL_CHILD"

// process is a living one that bears a sandbox's mark.
type process struct {
	pid     int
	tag     string // of the server it belongs to; "" for the app and bridges
	command string
}

func (p process) String() string { return fmt.Sprintf("%d %s", p.pid, p.command) }

// marked finds the processes with that mark, however deep they were started and
// whether or not whoever did it is still there. Zombies have no environment.
func marked(mark string) []process {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil // only a wrong pattern fails
	}
	var found []process
	for _, folder := range folders {
		environ, err := os.ReadFile(filepath.Join(folder, "environ"))
		if err != nil || valueOf(environ, markVariable) != mark {
			continue // ended meanwhile, or is somebody else's
		}
		command, _ := os.ReadFile(filepath.Join(folder, "cmdline")) // only for people
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			continue
		}
		found = append(found, process{
			pid: pid, tag: valueOf(environ, tagVariable),
			command: strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " ")),
		})
	}
	return found
}

// valueOf finds a variable in an environment as /proc has it.
func valueOf(environ []byte, name string) string {
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(variable, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// alive reports whether pid lives and is no zombie.
func alive(pid int) bool {
	fields := statOf(pid)
	return len(fields) > 0 && fields[0] != "Z" && fields[0] != "X"
}

// ended reports whether nothing of pid runs any more. The first thread of a process
// becomes a zombie before the others have ended and its pipes are closed.
func ended(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err != nil || len(threads) <= 1 && !alive(pid)
}

// stopped reports whether all threads of pid have stopped.
func stopped(pid int) bool {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(paths) == 0 {
		return false
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err == nil && !bytes.Contains(content, []byte(") T ")) {
			return false
		}
	}
	return true
}

// statOf are the fields of /proc/PID/stat behind the name, of which the first is the
// state (proc_pid_stat(5)); nil when there is no such process.
func statOf(pid int) []string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
}

// cpuTime is what the threads of a process have used, without its children. The times
// in its stat line are too coarse for one that does next to nothing.
func cpuTime(pid int) time.Duration {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0
	}
	var sum time.Duration
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if fields := strings.Fields(string(content)); err == nil && len(fields) > 0 {
			nanoseconds, _ := strconv.ParseInt(fields[0], 10, 64) // the kernel writes numbers
			sum += time.Duration(nanoseconds)
		}
	}
	return sum
}

// residentKiB is the resident memory of a process.
func residentKiB(pid int) int {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0]) // the kernel writes a number
			return kib
		}
	}
	return 0
}

// descriptors is how many files the process has open.
func descriptors(pid int) int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	return len(entries)
}

// signal sends a signal to a process that the harness knows.
func signal(pid int, s syscall.Signal) error {
	if pid <= 0 {
		return fmt.Errorf("sending %v: there is no process %d", s, pid)
	}
	if err := syscall.Kill(pid, s); err != nil {
		return fmt.Errorf("sending %v to %d: %w", s, pid, err)
	}
	return nil
}
