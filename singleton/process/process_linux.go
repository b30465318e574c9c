package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// StartTime returns when the process started, as an opaque text to be compared
// for equality only. It is made of the boot id and of the raw start ticks in
// /proc/PID/stat (proc_pid_stat(5), field 22), so that neither a changed clock
// nor a reboot makes two processes look like one. The error wraps
// [fs.ErrNotExist] when there is no such process; a zombie counts as none.
func StartTime(pid int) (string, error) {
	s, err := readStat(pid)
	if err != nil {
		return "", err
	}
	if s.dead() {
		return "", fmt.Errorf("process %d has ended and waits for its parent: %w", pid, fs.ErrNotExist)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // some sandboxes have none
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return string(bytes.TrimSpace(boot)) + "/" + s.startTicks, nil
}

// Stopped reports whether the process is stopped, by SIGSTOP or by a debugger,
// so that it cannot answer before it is woken.
func Stopped(pid int) bool {
	s, err := readStat(pid)
	return err == nil && (s.state == 'T' || s.state == 't')
}

// Exe returns the path of the file the process runs, also when that file has
// been deleted or replaced since, as an upgrade does.
func Exe(pid int) (string, error) {
	if pid <= 0 {
		return "", notFound(pid)
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return "", fmt.Errorf("finding the program of process %d: %w", pid, err)
	}
	return strings.TrimSuffix(path, " (deleted)"), nil
}

// stat is what we need of /proc/PID/stat.
type stat struct {
	state      byte
	startTicks string // clock ticks from boot to the start of the process
}

// dead reports whether only the entry in the process table is left.
func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }

func readStat(pid int) (stat, error) {
	if pid <= 0 {
		return stat{}, notFound(pid)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, syscall.ESRCH) { // it ended between open and read
		return stat{}, notFound(pid)
	}
	if err != nil {
		return stat{}, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	s, err := parseStat(text)
	if err != nil {
		return stat{}, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	return s, nil
}

// parseStat reads a line of proc_pid_stat(5). The second field is the program's
// name in parentheses and may itself hold spaces, newlines and parentheses: the
// fixed part begins after the last one.
func parseStat(text []byte) (stat, error) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return stat{}, errors.New("its stat line has no program name")
	}
	const firstField, stateField, startField = 3, 3, 22
	fields := bytes.Fields(text[end+1:])
	if len(fields) <= startField-firstField || len(fields[stateField-firstField]) != 1 {
		return stat{}, errors.New("its stat line is too short")
	}
	state := fields[stateField-firstField][0]
	if state < 'A' || state > 'z' {
		return stat{}, errors.New("the state in its stat line is no letter")
	}
	ticks := string(fields[startField-firstField])
	if _, err := strconv.ParseUint(ticks, 10, 64); err != nil {
		return stat{}, fmt.Errorf("the start time in its stat line: %w", err)
	}
	return stat{state: state, startTicks: ticks}, nil
}

func notFound(pid int) error {
	return fmt.Errorf("there is no process %d: %w", pid, fs.ErrNotExist)
}
