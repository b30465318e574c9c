//go:build !linux && !freebsd && !openbsd && !netbsd && (cgo || !darwin)

package tray

// built: the tray library is part of this build.
const built = true
