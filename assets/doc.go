// Package assets draws the program's pictures: the icons that stand for a
// server's state and the icon of the app itself. They are drawn at run time
// from one source, so that every size and format (PNG, Windows ICO, macOS
// template) shows the same thing and no binary file has to be kept in step.
//
// A [Shape] differs from every other one in outline as well as in colour, so
// that icons can be told apart without colour vision and on a macOS menu bar,
// which takes the colour away. The colours have a contrast of at least 3:1 on
// light and on dark panels.
//
// # Concurrency contract
//
// The functions are pure. An [Icons] may be used from any goroutine. The byte
// slices it returns are shared: callers must not write to them.
//
// The package knows nothing of servers and their states: who shows a state
// chooses its shape.
package assets
