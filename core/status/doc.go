// Package status holds what the funnel knows about itself at one moment, as
// plain data, and the two ways of following it: the [Board] for those who want
// the present picture (tray, list_changed, idle exit) and the [Events] ring for
// those who want to be told what happened (`mcp-funnel events`, the log).
//
// # Concurrency contract
//
// Every exported method may be called from any goroutine. A [Snapshot] and
// everything it points to is immutable once it left the board: readers share
// it, writers replace it. The board is level-triggered: a reader that is slow
// misses states in between but never the last one, and it can never block a
// writer. The ring keeps the newest events only; a reader that falls behind
// is told how many it lost.
//
// The package starts no goroutine and imports nothing of this module.
package status
