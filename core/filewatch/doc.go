// Package filewatch tells when files change.
//
// # Concurrency contract
//
// [New] starts nothing. [Watcher.Run] blocks, joins what it started, and calls its
// callback from one goroutine at a time. A Watcher is run once.
//
// It does not read the files and does not say what changed in them.
package filewatch
