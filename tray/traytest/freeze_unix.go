//go:build unix

package traytest

import (
	"fmt"
	"syscall"
)

// Freeze makes the bus stop answering while its connections stay open, until
// the bus is stopped.
func (b *Bus) Freeze() error {
	if err := b.daemon.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freezing the bus: %w", err)
	}
	return nil
}
