//go:build !linux && !freebsd && !openbsd && !netbsd

package wakeup

import (
	"context"
	"fmt"
)

// logind is missing on this system.
type logind struct{}

func newLogind(Options) logind { return logind{} }

func (logind) follow(context.Context, func(event)) error {
	return fmt.Errorf("listening to logind: %w", errNoSource)
}
