//go:build !linux

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"

	gops "github.com/shirou/gopsutil/v4/process"
)

// StartTime returns when the process started, as an opaque text to be compared
// for equality only: what the system noted down then, in milliseconds. The error
// wraps [fs.ErrNotExist] when there is no such process; a zombie counts as none.
func StartTime(pid int) (string, error) {
	p, err := find(pid)
	if err != nil {
		return "", err
	}
	if states, err := p.Status(); err == nil && slices.Contains(states, gops.Zombie) {
		return "", fmt.Errorf("process %d has ended and waits for its parent: %w", pid, fs.ErrNotExist)
	}
	ms, err := p.CreateTime()
	if err != nil {
		return "", fmt.Errorf("finding the start time of process %d: %w", pid, err)
	}
	return strconv.FormatInt(ms, 10), nil
}

// Stopped is always false: only Linux is asked for it.
func Stopped(int) bool { return false }

// Exe returns the path of the file the process runs.
func Exe(pid int) (string, error) {
	p, err := find(pid)
	if err != nil {
		return "", err
	}
	path, err := p.Exe()
	if err != nil {
		return "", fmt.Errorf("finding the program of process %d: %w", pid, err)
	}
	return path, nil
}

func find(pid int) (*gops.Process, error) {
	if pid <= 0 || pid > math.MaxInt32 {
		return nil, fmt.Errorf("there is no process %d: %w", pid, fs.ErrNotExist)
	}
	p, err := gops.NewProcess(int32(pid))
	if errors.Is(err, gops.ErrorProcessNotRunning) {
		return nil, fmt.Errorf("there is no process %d: %w", pid, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	return p, nil
}
