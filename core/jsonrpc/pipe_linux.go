package jsonrpc

import "golang.org/x/sys/unix"

// pipeSize is what a pipe is made to hold, in bytes: a large message then passes in
// few steps. It is what Linux allows to everybody, and memory only while it is used.
const pipeSize = 1 << 20

// Widen makes room in a pipe, where file is one and the system allows it.
func Widen(file interface{ Fd() uintptr }) {
	// Nothing depends on it, so nothing is to be done about an error.
	_, _ = unix.FcntlInt(file.Fd(), unix.F_SETPIPE_SZ, pipeSize)
}
