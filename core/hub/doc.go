// Package hub serves the merged funnel to MCP clients: one session for each
// attached client, all over the same servers.
//
// # Concurrency contract
//
// [Hub.Serve] blocks for the life of one session and joins what it started; any
// number of them run side by side. A session's goroutine reads; another one writes
// what is queued for the client. Replies are queued by whichever goroutine has
// them, and none of them waits: a client that does not read is cut off at its
// limit of bytes or of time, alone. [Hub.Run] tells clients of changed lists.
//
// The package knows servers only as something that takes requests, and clients
// only as a stream of lines; sockets, hellos and processes are not its business.
package hub
