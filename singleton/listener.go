package singleton

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// listener accepts this user's connections and goes on where accepting fails for
// a while.
type listener struct {
	inner   net.Listener
	closing chan struct{} // closed by Close, ends a pause of Accept
	once    sync.Once
	err     error // of closing inner; set by once
}

func newListener(inner net.Listener) *listener {
	return &listener{inner: inner, closing: make(chan struct{})}
}

// Accept waits for the next connection of this user.
func (l *listener) Accept() (net.Conn, error) {
	rest := backoff{5 * time.Millisecond, time.Second}
	for {
		c, err := l.inner.Accept()
		switch {
		case err == nil && SamePeer(c) == nil:
			return c, nil
		case err == nil:
			_ = c.Close() // not one of ours, or we cannot tell: it is owed nothing
		case !temporary(err):
			return nil, err
		case !rest.pause(l.closing):
			return nil, &net.OpError{Op: "accept", Net: "unix", Addr: l.Addr(), Err: net.ErrClosed}
		}
	}
}

// Addr is the socket's address.
func (l *listener) Addr() net.Addr { return l.inner.Addr() }

// Close ends Accept. The socket's path stays. It is idempotent.
func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closing)
		l.err = l.inner.Close()
	})
	return l.err
}

// temporary reports whether accepting failed for want of something that comes
// back, or because the peer has gone again.
func temporary(err error) bool {
	for _, passing := range []error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED, syscall.EINTR, syscall.EPERM, syscall.EPROTO,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}
