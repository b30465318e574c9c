//go:build unix

package singleton

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// sameFile reports whether a and b are the same file.
func sameFile(a, b fs.FileInfo) bool { return os.SameFile(a, b) }

// nobodyListens reports whether connecting failed because no process listens on
// the socket.
func nobodyListens(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// queueFull reports whether connecting failed because too many others wait to be
// accepted; Linux says so at once instead of blocking.
func queueFull(err error) bool { return errors.Is(err, syscall.EAGAIN) }

// terminate asks p to end, also when it is stopped: the signal acts on it only
// once it goes on.
func terminate(p *os.Process) error {
	return errors.Join(p.Signal(syscall.SIGTERM), p.Signal(syscall.SIGCONT))
}
