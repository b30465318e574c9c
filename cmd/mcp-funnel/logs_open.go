//go:build !windows

package main

import "os"

// openShared opens a log for reading so that it can still be rotated.
func openShared(path string) (*os.File, error) { return os.Open(path) }
