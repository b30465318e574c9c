//go:build !linux

package wakeup

import (
	"context"
	"errors"
	"fmt"
)

// errNoSource is what a source says on a system that does not have it.
var errNoSource = errors.New("not on this system")

// followNetwork has nothing to follow on this system.
func followNetwork(context.Context, func(event)) error {
	return fmt.Errorf("watching the network: %w", errNoSource)
}
