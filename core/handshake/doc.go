// Package handshake is what the funnel says of itself to MCP clients. It is the same
// in every answer, whoever gives it: the app, or a bridge while there is no app.
//
// # Concurrency contract
//
// Everything is a pure function.
package handshake
