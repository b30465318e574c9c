//go:build unix

package singleton

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// SamePeer says why the process at the other end of c is not one of this user's:
// a [*PeerError] when it is another user's, any other error when that cannot be
// found out. Only nil lets a peer in.
func SamePeer(c net.Conn) error {
	p, err := peerOfConn(c)
	if err != nil {
		return err
	}
	if p.uid != os.Geteuid() {
		return &PeerError{UID: p.uid}
	}
	return nil
}

// peerPID is the pid at the other end, 0 when it is not known.
func peerPID(c net.Conn) int {
	p, err := peerOfConn(c)
	if err != nil {
		return 0
	}
	return p.pid
}

// peer is the process at the other end of a socket.
type peer struct{ uid, pid int }

func peerOfConn(c net.Conn) (peer, error) {
	if greeted, ok := c.(*Conn); ok {
		c = greeted.Conn
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return peer{}, fmt.Errorf("finding out whose connection this is: %T is no socket", c)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return peer{}, fmt.Errorf("finding out whose connection this is: %w", err)
	}
	var p peer
	var peerErr error
	if err := raw.Control(func(fd uintptr) { p, peerErr = peerOf(int(fd)) }); err != nil {
		return peer{}, fmt.Errorf("finding out whose connection this is: %w", err)
	}
	if peerErr != nil {
		return peer{}, fmt.Errorf("finding out whose connection this is: %w", peerErr)
	}
	return p, nil
}
