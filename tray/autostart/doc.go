// Package autostart starts the program when its user logs in: by an entry in the
// autostart folder of the XDG desktops (freedesktop.org's Desktop Application
// Autostart Specification 0.5), a launch agent on macOS, or a value under the Run
// key of Windows.
//
// What is on is read from the system each time, so that a change made elsewhere,
// by a desktop's settings for example, is seen. A file that somebody else wrote is
// never replaced: of such a desktop entry only the line that switches it on or off
// is changed, and only when the user asks for it; such a launch agent is left to
// who wrote it.
//
// # Concurrency contract
//
// The functions keep nothing and may be called from any goroutine. Files are
// replaced in one step; of two changes at the same time the later one holds.
//
// # What it does not do
//
// It starts and stops nothing now, only at the next login. It writes no systemd
// unit: many window managers never reach graphical-session.target.
package autostart
