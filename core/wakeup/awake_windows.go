package wakeup

import (
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// newAwake asks Windows: Go's monotonic clock is the interrupt time there, which
// goes on during sleep. The unbiased interrupt time does not.
func newAwake() func() time.Duration {
	query := windows.NewLazySystemDLL("kernel32.dll").NewProc("QueryUnbiasedInterruptTime")
	return func() time.Duration {
		var units uint64 // of 100 ns
		// It fails for a nil pointer only.
		_, _, _ = query.Call(uintptr(unsafe.Pointer(&units)))
		return time.Duration(units) * 100
	}
}
