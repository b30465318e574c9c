package singleton

import "fmt"

// PeerError says that a process of another user is at the other end.
type PeerError struct {
	// UID is that user's number.
	UID int
}

func (e *PeerError) Error() string {
	return fmt.Sprintf("the other end of the socket belongs to another user (uid %d)", e.UID)
}
