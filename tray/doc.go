// Package tray shows the funnel on the desktop: an icon whose shape is the
// worst state of the enabled servers, a menu with a row for each server, and a
// notification when a server gives up its fast retries or recovers.
//
// It is made of three parts. present.go is pure: it turns a [status.Snapshot]
// into a model of the menu and into notices. presenter.go is the loop that
// decides when to do that; it owns the menu and everything remembered about
// it. view_systray.go makes the menu look like the model; it alone knows the
// tray library. A courier hands notices to a [Notifier].
//
// # Concurrency contract
//
// [Tray.Run] must be called on the main goroutine, because two of three
// systems run their user interface on the main thread, and once in the life of
// the process, because the tray library keeps its state in package variables.
// It starts goroutines and joins them before it returns. Waiting for a desktop
// that has stopped answering is the one exception: it is given up after three
// seconds, so that a frozen bus cannot keep the app from quitting.
//
// The desktop can harm only itself: the board never waits for the tray, menu
// commands run beside the menu, and a notification that is not taken within
// two seconds is dropped.
//
// # What it does not do
//
// It starts no session bus, supervises nothing and decides nothing about
// servers: commands go to [Controls], the picture comes from the board.
package tray
