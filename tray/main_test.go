package tray

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childVar makes the test binary run a tray instead of tests (see child).
const childVar = "TRAY_TEST_CHILD"

// TestMain runs on the main goroutine, which is where a tray must run.
func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		os.Exit(child(os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}
