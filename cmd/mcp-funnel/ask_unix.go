//go:build unix

package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// canAsk reports whether r is a terminal, where somebody can be asked.
func canAsk(r io.Reader) bool {
	file, ok := r.(*os.File)
	if !ok {
		return false
	}
	// Only a terminal has a size; /dev/null is a character device as well.
	_, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
