//go:build unix

package jsonrpc

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// offer writes to a stream as much as fits at once, and waits for nothing.
type offer struct {
	conn syscall.RawConn
	// try is attempt, made a value once.
	try func(fd uintptr) bool
	// line is what is offered, and n how much of it was taken.
	line []byte
	n    int
}

// newOffer returns nil when dst is no stream of the system, or one that would make
// its writers wait.
func newOffer(dst io.Writer) *offer {
	file, ok := dst.(syscall.Conn)
	if !ok {
		return nil
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	waits := true
	err = conn.Control(func(fd uintptr) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		waits = err != nil || flags&unix.O_NONBLOCK == 0
	})
	if err != nil || waits {
		return nil
	}
	o := &offer{conn: conn}
	o.try = o.attempt
	return o
}

// write returns how much of line was taken. An error is not told: whoever writes the
// rest meets it again.
func (o *offer) write(line []byte) int {
	o.line, o.n = line, 0
	_ = o.conn.Write(o.try)
	o.line = nil
	return o.n
}

// attempt is done after one try, successful or not.
func (o *offer) attempt(fd uintptr) bool {
	if n, err := syscall.Write(int(fd), o.line); err == nil {
		o.n = n
	}
	return true
}
