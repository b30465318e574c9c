//go:build linux

package main

import (
	"fmt"
	"slices"
	"time"
)

// samples are times measured of one kind of event.
type samples []time.Duration

// median is the middle one, of an even number the later of the two.
func (s samples) median() time.Duration {
	if len(s) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(s))[len(s)/2]
}

// String is the time, or for several the median with the shortest and the longest.
func (s samples) String() string {
	switch len(s) {
	case 0:
		return "–"
	case 1:
		return short(s[0])
	}
	return fmt.Sprintf("%s (%s–%s, N=%d)", short(s.median()), short(slices.Min(s)), short(slices.Max(s)), len(s))
}

// short writes a time with as many digits as matter.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
