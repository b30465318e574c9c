package singleton

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// ErrNotRunning says that nobody listens on the socket.
var ErrNotRunning = errors.New("no mcp-funnel is running")

// RefusedError says that the instance answered and did not let us in.
type RefusedError struct {
	// Message is what it said.
	Message string
}

func (e *RefusedError) Error() string { return "the running mcp-funnel refused: " + e.Message }

// Dial connects to the instance in dir and greets it with h, of which the
// protocol version is filled in, and the pids when they are 0. It waits for the
// answer until ctx ends, 10 s at most. Errors: [ErrNotRunning] when there is no
// socket or nobody listens, [*RefusedError], [*ProtocolError], [*HelloError],
// and [*PeerError] when the socket is another user's.
func Dial(ctx context.Context, dir string, h Hello) (*Conn, Welcome, error) {
	path, err := socketPath(dir)
	if err != nil {
		return nil, Welcome{}, fmt.Errorf("connecting: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	c, err := connect(ctx, path)
	if err != nil {
		return nil, Welcome{}, err
	}
	if err := SamePeer(c); err != nil {
		return nil, Welcome{}, errors.Join(fmt.Errorf("connecting to %s: %w", path, err), c.Close())
	}
	conn := &Conn{Conn: c, R: bufio.NewReaderSize(c, maxHello)}
	h.Protocol = Protocol
	if h.PID == 0 {
		h.PID, h.PPID = os.Getpid(), os.Getppid()
	}
	w, err := conn.greet(ctx, h)
	if err != nil {
		return nil, Welcome{}, errors.Join(fmt.Errorf("greeting the instance at %s: %w", path, err), c.Close())
	}
	return conn, w, nil
}

// connect opens a connection to the socket at path.
func connect(ctx context.Context, path string) (net.Conn, error) {
	if _, err := os.Lstat(path); nobodyListens(err) { // not every system's connect tells a missing path apart
		return nil, fmt.Errorf("%w: there is no socket %s", ErrNotRunning, path)
	}
	var dialer net.Dialer
	var c net.Conn
	err := backoff{5 * time.Millisecond, 100 * time.Millisecond}.until(ctx, func() (bool, error) {
		var err error
		c, err = dialer.DialContext(ctx, "unix", path)
		if queueFull(err) {
			return false, nil
		}
		return true, err
	})
	switch {
	case err == nil:
		return c, nil
	case nobodyListens(err):
		return nil, fmt.Errorf("%w: nobody listens on %s", ErrNotRunning, path)
	}
	return nil, fmt.Errorf("connecting to %s: %w", path, err)
}

// answered reports whether err is what an instance said, or the lack of an error:
// there is one and it is alive.
func answered(err error) bool {
	var refused *RefusedError
	var version *ProtocolError
	var hello *HelloError
	return err == nil || errors.As(err, &refused) || errors.As(err, &version) || errors.As(err, &hello)
}

// foreign reports whether err says that the socket is another user's, or that
// nobody can tell whose it is.
func foreign(err error) bool {
	var peer *PeerError
	return errors.As(err, &peer)
}
