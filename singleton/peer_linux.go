package singleton

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// peerOf asks the system who is at the other end: on an accepted connection the
// process that connected, on a dialled one the process that listened.
func peerOf(fd int) (peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return peer{}, fmt.Errorf("reading SO_PEERCRED: %w", err)
	}
	return peer{uid: int(cred.Uid), pid: int(cred.Pid)}, nil
}
