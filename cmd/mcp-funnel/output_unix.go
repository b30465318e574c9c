//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// nobodyReads reports whether the other end of a pipe or socket was closed.
func nobodyReads(out *os.File) bool {
	raw, err := out.SyscallConn()
	if err != nil {
		return false
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		look := []unix.PollFd{{Fd: int32(fd)}} //nolint:gosec // descriptors are small
		n, err := unix.Poll(look, 0)
		closed = err == nil && n > 0 && look[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
	return err == nil && closed
}
