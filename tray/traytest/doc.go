// Package traytest drives and inspects a tray icon and desktop notifications
// over a session bus, for tests. It needs no display and no panel: [StartBus]
// runs a private bus, [NewWatcher] stands in for the panel and
// [NewNotifications] for the notification server.
//
// # Concurrency contract
//
// Methods may be called from any goroutine unless they say otherwise. What a
// stand-in was made on, a connection, belongs to the caller.
//
// The package is for tests only; the program does not import it.
package traytest
