// Package process tells one process from another. A pid alone does not: the
// system hands it out again, after a reboot at the latest. A pid together with
// the time the process started does, and that pair is what the funnel keeps on
// disk of itself and of everything it started.
//
// All functions may be called from any goroutine; the package keeps no state.
// It signals no process and waits for none.
package process
