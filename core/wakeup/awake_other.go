//go:build !windows

package wakeup

import "time"

// newAwake uses Go's monotonic clock, which stands still while the machine
// sleeps: it is CLOCK_MONOTONIC on Linux and mach_absolute_time on macOS. Where
// it does not, as on OpenBSD, sleep goes unnoticed by the clocks.
func newAwake() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
