package environ

import (
	"context"
	"slices"
)

// LoginShell returns base: Windows has no login shell, and gives every program
// the user's whole environment.
func LoginShell(_ context.Context, base []string) (env []string, err error) {
	return slices.Clone(base), nil
}
