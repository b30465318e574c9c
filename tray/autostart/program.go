package autostart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Program returns the absolute path to start the running program by, one that
// survives updates. Package managers put each version into a folder of its own and
// a link to it into PATH: so that is the entry of PATH which leads to this very
// file. An AppImage runs from a folder that exists only while it runs: so that is
// the image, where the running file lies within it. Otherwise it is the file
// itself. environ looks up an environment variable.
func Program(environ func(string) string) (string, error) {
	running, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding the program's file: %w", err)
	}
	return lastingPath(running, environ), nil
}

func lastingPath(running string, environ func(string) string) string {
	if image := environ("APPIMAGE"); filepath.IsAbs(image) && within(environ("APPDIR"), running) {
		return image
	}
	own, err := os.Stat(running)
	if err != nil {
		return running
	}
	for _, dir := range filepath.SplitList(environ("PATH")) {
		if !filepath.IsAbs(dir) {
			continue // means something else elsewhere
		}
		path := filepath.Join(dir, filepath.Base(running))
		if found, err := os.Stat(path); err == nil && os.SameFile(own, found) {
			return path
		}
	}
	return running
}

// within reports whether path lies in the folder dir. A variable left over from
// another program, or one that means everything, does not count.
func within(dir, path string) bool {
	if !filepath.IsAbs(dir) {
		return false
	}
	relative, err := filepath.Rel(dir, path)
	return err == nil && relative != "." && relative != ".." && filepath.Dir(dir) != filepath.Clean(dir) &&
		!strings.HasPrefix(relative, ".."+string(filepath.Separator))
}

// missing reports whether path is that of a program which is not there any more. One
// that merely cannot be run, or looked at, is not ours to give up.
func missing(path string) bool {
	_, err := os.Stat(path)
	return filepath.IsAbs(path) && errors.Is(err, fs.ErrNotExist)
}
