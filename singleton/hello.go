package singleton

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// Protocol is the version of what is spoken on the socket. Versions one step
// apart keep working with each other.
const Protocol = 1

// Roles of a connection, in [Hello].
const (
	// RoleBridge carries MCP messages and link messages after the greeting.
	RoleBridge = "bridge"
	// RoleControl carries JSON-RPC 2.0 after the greeting.
	RoleControl = "control"
)

const (
	// maxHello is the longest greeting, newline included, in bytes.
	maxHello = 64 << 10
	// helloTimeout is the time for one greeting to come, and for its answer.
	helloTimeout = 10 * time.Second
)

// Hello is the first line on a connection, sent by the one that dialled.
type Hello struct {
	Protocol int `json:"mcp-funnel"`
	// Role is [RoleBridge] or [RoleControl].
	Role    string `json:"role"`
	Version string `json:"version"`
	PID     int    `json:"pid"`
	PPID    int    `json:"ppid"`
	CWD     string `json:"cwd"`
	// Name is under which name the client has the funnel.
	Name string `json:"name,omitempty"`
	// Env is the part of the client's environment that says who it is.
	Env map[string]string `json:"env,omitempty"`
	// Resume is what the last resume message said, to go on with that session.
	Resume string `json:"resume,omitempty"`
}

// Welcome is the answer to a [Hello]: an error, or what the caller is let in to.
type Welcome struct {
	Protocol int    `json:"mcp-funnel"`
	Version  string `json:"version,omitempty"`
	// Session is the id of the bridge's session.
	Session string `json:"session,omitempty"`
	// Mode is the instance's, [ModeTray] or [ModeHeadless].
	Mode string `json:"mode,omitempty"`
	// Error says why the caller is not let in.
	Error string `json:"error,omitempty"`
}

// Conn is a connection that has been greeted.
type Conn struct {
	net.Conn
	// R has to be used for reading: it may hold bytes that came with the
	// greeting. Its buffer is 64 KiB.
	R *bufio.Reader
}

// SyscallConn implements [syscall.Conn] where the connection does.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if raw, ok := c.Conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, syscall.EINVAL
}

// ProtocolError says that the two ends are too far apart in version.
type ProtocolError struct {
	// Ours and Theirs are versions of the protocol.
	Ours, Theirs int
	// Version is the other program's.
	Version string
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("this mcp-funnel speaks version %d of the socket protocol, the other (version %q) speaks %d: "+
		"bring both to the same version and start them again", e.Ours, e.Version, e.Theirs)
}

// HelloError says that what came first on a connection was no greeting of ours.
type HelloError struct {
	Problem string
}

func (e *HelloError) Error() string { return "not a greeting of mcp-funnel: " + e.Problem }

// Accept reads the hello on c, at most 64 KiB within 10 s, and leaves c without a
// deadline; the caller answers with [Conn.Welcome]. When it fails c is closed. A
// peer that is too far apart in version ([*ProtocolError]) or that sends
// something else ([*HelloError]) is told so first.
func Accept(ctx context.Context, c net.Conn) (*Conn, Hello, error) {
	conn := &Conn{Conn: c, R: bufio.NewReaderSize(c, maxHello)}
	var h Hello
	err := conn.exchange(ctx, func() error {
		line, err := conn.readLine()
		if err == nil {
			h, err = parseHello(line)
		}
		var version *ProtocolError
		var hello *HelloError
		if errors.As(err, &version) || errors.As(err, &hello) {
			// The peer may be gone or not reading; the error says all that we know.
			_ = conn.writeLine(Welcome{Protocol: Protocol, Error: err.Error()})
		}
		return err
	})
	if err != nil {
		return nil, Hello{}, errors.Join(fmt.Errorf("reading the hello: %w", err), c.Close())
	}
	return conn, h, nil
}

// Welcome answers the hello; the protocol version is filled in. One with an Error
// refuses the peer; closing the connection is the caller's then, too.
func (c *Conn) Welcome(w Welcome) error {
	w.Protocol = Protocol
	err := c.exchange(context.Background(), func() error { return c.writeLine(w) })
	if err != nil {
		return fmt.Errorf("answering the hello: %w", err)
	}
	return nil
}

// greet sends h and reads the answer.
func (c *Conn) greet(ctx context.Context, h Hello) (Welcome, error) {
	var w Welcome
	err := c.exchange(ctx, func() error {
		if err := c.writeLine(h); err != nil {
			return err
		}
		line, err := c.readLine()
		if err == nil {
			w, err = parseWelcome(line)
		}
		return err
	})
	return w, err
}

// exchange does I/O under the greeting's deadline, cut short by the end of ctx,
// and takes the deadline away afterwards.
func (c *Conn) exchange(ctx context.Context, talk func() error) error {
	if err := c.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err := talk()
	if !stop() {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	return c.SetDeadline(time.Time{})
}

// readLine reads a line of a greeting, without its newline; it is valid until the
// next read.
func (c *Conn) readLine() ([]byte, error) {
	line, err := c.R.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, &HelloError{fmt.Sprintf("the first line is longer than %d bytes", maxHello)}
	case errors.Is(err, io.EOF) && len(line) > 0:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	}
	return bytes.TrimSuffix(line, []byte("\n")), nil
}

// writeLine writes a greeting.
func (c *Conn) writeLine(greeting any) error {
	text, err := json.Marshal(greeting)
	if err != nil {
		return err
	}
	if len(text) >= maxHello {
		return fmt.Errorf("the greeting has %d bytes, the limit is %d", len(text)+1, maxHello)
	}
	_, err = c.Write(append(text, '\n'))
	return err
}

func parseHello(line []byte) (Hello, error) {
	var h Hello
	if err := json.Unmarshal(line, &h); err != nil {
		return Hello{}, &HelloError{err.Error()}
	}
	if err := checkProtocol(h.Protocol, h.Version); err != nil {
		return Hello{}, err
	}
	if h.Role != RoleBridge && h.Role != RoleControl {
		return Hello{}, &HelloError{fmt.Sprintf("the role %q is not known here", h.Role)}
	}
	return h, nil
}

// parseWelcome reads the answer. A refusal is the peer's whole say: it is passed
// on whatever version it comes from.
func parseWelcome(line []byte) (Welcome, error) {
	var w Welcome
	if err := json.Unmarshal(line, &w); err != nil {
		return Welcome{}, &HelloError{err.Error()}
	}
	if w.Error != "" {
		return Welcome{}, &RefusedError{w.Error}
	}
	if err := checkProtocol(w.Protocol, w.Version); err != nil {
		return Welcome{}, err
	}
	return w, nil
}

// checkProtocol says whether the two ends understand each other.
func checkProtocol(theirs int, version string) error {
	if theirs < 1 {
		return &HelloError{`it has no "mcp-funnel" version`}
	}
	if theirs < Protocol-1 || theirs > Protocol+1 {
		return &ProtocolError{Ours: Protocol, Theirs: theirs, Version: version}
	}
	return nil
}
