package main

import (
	"io"
	"os"

	"golang.org/x/sys/windows"
)

// canAsk reports whether r is a console, where somebody can be asked.
func canAsk(r io.Reader) bool {
	file, ok := r.(*os.File)
	if !ok {
		return false
	}
	var mode uint32
	return windows.GetConsoleMode(windows.Handle(file.Fd()), &mode) == nil
}
