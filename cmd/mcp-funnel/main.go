//go:build !docs

package main

import (
	"context"
	"os"
)

func main() {
	// Each command decides itself what signals mean to it.
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
