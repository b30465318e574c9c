package singleton

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// peerOf asks the system who is at the other end: on an accepted connection the
// process that connected, on a dialled one the process that listened.
func peerOf(fd int) (peer, error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return peer{}, fmt.Errorf("reading LOCAL_PEERCRED: %w", err)
	}
	pid, err := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	if err != nil {
		pid = 0 // information only
	}
	return peer{uid: int(cred.Uid), pid: pid}, nil
}
