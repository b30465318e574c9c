// Package clients knows where MCP clients keep their configuration and puts the
// bridge into it, or takes it out again.
//
// The files belong to the user and to the client. They are read first, always, and
// one that cannot be understood is left alone. A change is shown to the caller and
// made only when the caller agrees. It is made by the client's own command where
// that is installed and can do it, else by replacing just the bytes of our entry:
// all others stay as they are, and the new file takes the old one's place in one
// step. What was inserted is noted in [Options.StateDir], so that [Client.Disconnect] can
// put back the very bytes that were there before.
//
// # Concurrency contract
//
// A [Client] is immutable and may be used by any goroutine. Nothing is locked: a
// file that somebody else writes between our reading and our replacing it is read
// again. The package starts no goroutine.
//
// It does not know where the program lies, asks nobody, and words no result: the
// command line does.
package clients
