// Package bridge is what an MCP client runs: it carries whole lines between the
// client's stdio and the app's socket, and stays when the app goes.
//
// It knows no more of the messages than it needs for that: their ids, so that every
// request gets an answer when the app is lost, and the handshake, so that the next
// app can be given it again. Everything else passes as it is.
//
// # Concurrency contract
//
// [Run] blocks. It starts one goroutine that reads from the client and one that
// attaches to the app and carries what the app sends. When Run returns they have
// ended, unless the client holds them in a read or a write of its pipes, which
// nothing but the end of the process can interrupt. Lines to the client are
// written one at a time.
package bridge
