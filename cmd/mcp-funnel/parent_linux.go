package main

import (
	"context"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// awaitExit blocks until the parent process ended, and reports true then; false when
// ctx ended first or this cannot be seen. It costs nothing while it waits.
func awaitExit(ctx context.Context, parent int) bool {
	fd, err := unix.PidfdOpen(parent, unix.PIDFD_NONBLOCK)
	if err != nil {
		return false // an old kernel, or it is gone: then the parent has changed
	}
	process := os.NewFile(uintptr(fd), "parent")
	defer func() { _ = process.Close() }() // nothing is written to it
	stop := context.AfterFunc(ctx, func() { _ = process.Close() })
	defer stop()
	if os.Getppid() != parent {
		return true // it ended before it was opened
	}
	raw, err := process.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Read(func(fd uintptr) bool {
		look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // descriptors are small
		n, err := unix.Poll(look, 0)
		return err == nil && n > 0 // readable means ended (pidfd_open(2))
	})
	return err == nil && ctx.Err() == nil
}

// keepFilesFromChildren closes what this process inherited to all it starts: a lock or
// a pipe of the client would else be held for as long as the app lives.
func keepFilesFromChildren() {
	// Go's own files have the mark already; on an old kernel nothing is done.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
}
