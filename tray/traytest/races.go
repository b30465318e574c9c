package traytest

import "strings"

// RaceEnv makes a program built with the race detector go on after a report and
// exit as it would without, so that a test can judge the reports itself by
// [OurRaces]. It also leaves out the second that such a program waits at its end.
const RaceEnv = "GORACE=halt_on_error=0 exitcode=0 atexit_sleep_ms=20"

// OurRaces picks the data races out of a program's stderr in which code of this
// module takes part. The tray library has one of its own that nobody outside can
// prevent: the goroutine that announces the menu once more, shortly after the
// panel has read it first, writes the menu's version without the lock under
// which another one reads it.
func OurRaces(stderr string) []string {
	var ours []string
	for block := range strings.SplitSeq(stderr, "==================\n") {
		_, report, found := strings.Cut(block, "WARNING: DATA RACE\n")
		if !found {
			continue
		}
		// The stacks of the two accesses come first, then where their
		// goroutines were created.
		accesses, _, _ := strings.Cut(report, "\nGoroutine ")
		if strings.Contains(accesses, "  mcp-funnel/") || strings.Contains(accesses, "  main.") {
			ours = append(ours, report)
		}
	}
	return ours
}
