// Package endpoint serves the funnel over HTTP, for MCP clients that cannot run a
// command: the server's side of the "Streamable HTTP" transport of MCP 2025-11-25.
//
// A session of it is one of the hub's like any other: what clients POST becomes the
// lines that the hub reads, and the lines that the hub writes are sorted to the HTTP
// responses they belong on. A request is answered with plain JSON when nothing comes
// before its response, and with an event stream otherwise, or when it takes long.
// Events have ids and are kept for a while, so that a client that lost a connection
// can go on where it was; while nobody listens, what is for nobody in particular waits.
//
// # Who may come in
//
// Whoever knows the token, calls the endpoint by an address (a Host header with a
// stranger's name is a rebound DNS entry) and, if it is a web page, is one of this
// machine. All of that is checked before a byte of a body is read.
//
// # Concurrency contract
//
// [New] starts nothing. [Endpoint.Run] blocks and joins listener, connections and
// sessions. [Endpoint.Set] may be called at any time by anybody and never blocks.
// A session has one lock; the goroutine of each HTTP request waits for its events
// without it and writes them without it. The hub's writer never waits for a client:
// one that does not read is cut off at its limit, alone.
//
// It does not know TLS, and has no answer for web pages of other origins (CORS).
package endpoint
