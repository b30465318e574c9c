// Package jsonrpc handles JSON-RPC 2.0 messages as the bytes they arrived in.
// It finds where the id, the method, the params and the result of a message
// lie, replaces such a span by other bytes, and frames messages by newlines
// (the stdio transport of the MCP specification). Nothing is decoded into maps
// and encoded again: what is not touched leaves as it came, byte for byte.
//
// What [Parse] checks is the structure (quotes, brackets, commas, colons), which
// is what a receiver needs to stay in step; it does not check escapes inside
// strings nor the digits of numbers.
//
// # Concurrency contract
//
// A [Message] and the functions on it are plain values and may be shared as long
// as nobody writes to Raw. A [Reader] belongs to one goroutine. A [Writer] takes
// lines from any goroutine and is drained by the one that calls Run. The package
// starts no goroutine.
//
// It does not match replies to requests: who asked what is known by the hub and
// the upstream connections.
package jsonrpc
