package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mcp-funnel/core/jsonrpc"
)

// Transport is one live connection to a server. It is opened for one attempt and
// never used again after it ended.
type Transport interface {
	// Start begins to deliver what the server sends. It is called once, before
	// anything else but Close.
	Start(sink Sink)
	// Send hands one message over and returns without waiting for the server.
	// Where requests are exchanges of their own (HTTP), one that fails is
	// reported to the Sink. It fails when the connection is over, or with
	// [jsonrpc.ErrBacklog] when the server does not read. place is for Unsent.
	Send(m jsonrpc.Message) (place int, err error)
	// Unsent reports whether the message with that place certainly did not reach the
	// server, not a byte of it. It is valid once Done is closed.
	Unsent(place int) bool
	// Done is closed as soon as the connection is known to be over and all that
	// came before was delivered.
	Done() <-chan struct{}
	// Err says why it is over: what happened and, for a process, its exit code.
	// It is valid once Done is closed.
	Err() error
	// Negotiated tells the transport the protocol version of the handshake,
	// which HTTP repeats in a header.
	Negotiated(version string)
	// Close ends the connection politely and returns when nothing is left of it:
	// no process, no goroutine. It may be called more than once.
	Close()
	// Mask takes the server's secrets out of a text.
	Mask(text string) string
	// PID is the process id of a local server, 0 otherwise.
	PID() int
	// StderrTail is the end of what a local server wrote to stderr.
	StderrTail() string
}

// Sink takes what comes from a server. Its methods are called by the transport,
// for one connection in the order of arrival, and do not block.
type Sink interface {
	// Receive takes a message, whose bytes are the sink's during the call only. cause
	// is the id of the request on whose stream it came, 0 where that is not known.
	Receive(m jsonrpc.Message, cause int64)
	// Failed says that the request with that id will get no answer.
	Failed(id int64, err error)
}

// Opener opens a transport for one attempt. ctx bounds the opening, not the life
// of the connection. It fails with an error that says what to do.
type Opener func(ctx context.Context) (Transport, error)

// AuthError says that a server refused the credentials it was given, or wants
// some (HTTP status 401 or 403).
type AuthError struct {
	Status int
	// Hint is what the server said about it, for a person.
	Hint string
}

func (e *AuthError) Error() string {
	text := fmt.Sprintf("the server wants a log-in (HTTP status %d): put a valid token into its headers in the config", e.Status)
	if e.Hint != "" {
		text += "; it says: " + e.Hint
	}
	return text
}

// ExitError says that a server's process ended, or closed its output.
type ExitError struct {
	// Code is the exit code; -1 when a signal ended the process or it still runs.
	Code int
	// Cause reads like "exit code 3", "signal: killed" or "closed its output".
	Cause string
	// Stderr is the last line the process wrote there.
	Stderr string
}

func (e *ExitError) Error() string {
	text := "the process ended: " + e.Cause
	if e.Stderr != "" {
		text += "; its last words: " + e.Stderr
	}
	return text
}

// errStopped is the end of a connection that we closed ourselves.
var errStopped = errors.New("stopped by the funnel")

// maxErrorText bounds what a server can make us say about it, in bytes.
const maxErrorText = 1000

// tidyError is an error whose text may be shown: without secrets, on one line, short.
type tidyError struct {
	text  string
	cause error
}

func (e *tidyError) Error() string { return e.text }

func (e *tidyError) Unwrap() error { return e.cause }

// tidy makes err, in which words of the server may stand, fit to be shown.
func tidy(t Transport, err error) error {
	if err == nil {
		return nil
	}
	line := strings.Join(strings.Fields(err.Error()), " ")
	return &tidyError{text: cut(printable(t.Mask(line)), maxErrorText), cause: err}
}
