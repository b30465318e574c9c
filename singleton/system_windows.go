package singleton

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// sameFile reports whether a and b are the same file. A socket is a reparse point
// that cannot be opened to ask for its number: there the path has to do.
func sameFile(a, b fs.FileInfo) bool {
	if !a.Mode().IsRegular() && !b.Mode().IsRegular() && !a.IsDir() && !b.IsDir() {
		return true
	}
	return os.SameFile(a, b)
}

// nobodyListens reports whether connecting failed because no process listens on
// the socket.
func nobodyListens(err error) bool {
	return errors.Is(err, windows.WSAECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// queueFull is always false: Windows waits by itself.
func queueFull(error) bool { return false }

// terminate ends p at once: Windows has no way of asking.
func terminate(p *os.Process) error { return p.Kill() }
