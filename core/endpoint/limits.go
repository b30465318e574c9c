package endpoint

import (
	"time"

	"mcp-funnel/core/jsonrpc"
)

// limits bound what clients can make the endpoint hold, and how long.
type limits struct {
	// sessions at a time; when there are as many, the one unused for longest makes way.
	sessions int
	// listeners are the listening streams of one session.
	listeners int
	// body of one POST, and backlog that waits for one client to read, in bytes.
	body, backlog int
	// keptEvents and keptBytes are what is kept of a session's events for a client that
	// comes back.
	keptEvents, keptBytes int

	// header and readBody are how long a request may take to arrive, connection how long
	// one may do nothing between requests, stall how long a client may not read.
	header, readBody, connection, stall time.Duration
	// session is how long one may be unused without a connection.
	session time.Duration
	// keepAlive is the interval of comments on a silent stream.
	keepAlive time.Duration
	// stream is how long a request may go unanswered before its stream is begun, which
	// tells the client that it was heard, and lets it come back after a lost connection.
	stream time.Duration
	// goodbye is how long responses may still take at the end.
	goodbye time.Duration
	// retry is how long after a failed opening the next one comes.
	retry time.Duration
}

func defaultLimits() limits {
	return limits{
		sessions:   200,
		listeners:  8,
		body:       jsonrpc.MaxLine,
		backlog:    64 << 20,
		keptEvents: 1000,
		keptBytes:  4 << 20,
		header:     10 * time.Second,
		readBody:   time.Minute,
		connection: 2 * time.Minute,
		stall:      time.Minute,
		session:    30 * time.Minute,
		keepAlive:  15 * time.Second,
		stream:     5 * time.Second,
		goodbye:    700 * time.Millisecond,
		retry:      5 * time.Second,
	}
}
