// Package tray shows the funnel on the desktop: an icon whose shape is the
// worst state of the enabled servers, a menu with a row for each server, and
// notifications when servers are lost for longer and when they are back.
//
// present.go and policy.go are pure: they turn a [status.Snapshot] into a model of
// the menu and into notices. presenter.go is the loop that decides when to do that;
// it owns the menu and everything remembered about it. view_systray.go makes the
// menu look like the model; it alone knows the tray library. A courier hands
// notices to a [Notifier].
//
// What costs something is done when the user opens the menu, and only then: sorting
// the rows, counting down, measuring memory. An app whose servers are well is not
// woken by its tray.
//
// # Notices
//
// A server that is lost is told of when that has lasted for a while ([Policy]); that
// it is in slow probe, needs a log-in or is back, at once. News wait two seconds for
// others, and from three servers on are one notice, which takes up further ones for
// ten seconds. A server that is lost again within ten minutes of its recovery gets
// one notice in ten minutes from then on. Whatever is on the screen and not true any
// more is closed, if nothing takes its place; one about several servers is told again in
// its place without those of whom it is not true. Switching notices off clears the
// screen. After the start all is quiet for a
// while; what outlasts that is told at its end.
//
// # Concurrency contract
//
// [Tray.Run] must be called on the main goroutine, because two of three
// systems run their user interface on the main thread, and once in the life of
// the process, because the tray library keeps its state in package variables.
// It starts goroutines and joins them before it returns, with two exceptions.
// Waiting for a desktop that has stopped answering is given up after three seconds,
// so that a frozen bus cannot keep the app from quitting. And a program that shows a
// file for the user, which is waited for so that it leaves no zombie, may stay when
// the app goes.
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
