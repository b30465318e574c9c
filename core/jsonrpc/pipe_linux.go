package jsonrpc

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize is what a widened pipe holds, in bytes: four times the usual, so that a large
// message passes in few steps. All pipes of a user count against one limit
// (pipe(7), pipe-user-pages-soft), of which much more would take too large a part.
const pipeSize = 256 << 10

// Widen makes more room in a pipe. It does nothing with a file that is none.
func Widen(pipe *os.File) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return // closed; whoever uses it will see
	}
	_ = raw.Control(func(fd uintptr) {
		// Nothing depends on it, so nothing is done about an error.
		_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize)
	})
}
