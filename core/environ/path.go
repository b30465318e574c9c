package environ

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// MergePath joins two search paths: the entries of first, then those that only
// second has, both in their order. Empty and relative entries are dropped: they
// would mean another folder for each server.
func MergePath(first, second string) string {
	var merged []string
	seen := map[string]bool{}
	for _, list := range []string{first, second} {
		for _, dir := range filepath.SplitList(list) {
			if !filepath.IsAbs(dir) {
				continue
			}
			if key := foldKey(filepath.Clean(dir)); !seen[key] {
				seen[key] = true
				merged = append(merged, dir)
			}
		}
	}
	return strings.Join(merged, string(filepath.ListSeparator))
}

// NotFoundError says that there is no such command to start.
type NotFoundError struct {
	// Command is the command as it was given.
	Command string
	// Path is the search path; empty when Command is itself a path.
	Path string
	// Err is exec.ErrNotFound, or fs.ErrPermission if there is a file of that
	// name that may not be executed.
	Err error
}

// Error names the command and where it was looked for.
func (e *NotFoundError) Error() string {
	what := "not found"
	if errors.Is(e.Err, fs.ErrPermission) {
		what = "found, but not executable"
	}
	switch {
	case strings.ContainsAny(e.Command, pathSeparators):
		return fmt.Sprintf("command %q: %s", e.Command, what)
	case e.Path == "":
		return fmt.Sprintf("command %q: %s (PATH is empty)", e.Command, what)
	default:
		return fmt.Sprintf("command %q: %s in PATH %s", e.Command, what, e.Path)
	}
}

// Unwrap returns Err.
func (e *NotFoundError) Unwrap() error { return e.Err }

// LookPath finds the file to execute for command, like exec.LookPath, but in
// the search path that the server will have, not in this process's. A command
// with a separator is a path, relative to dir if that is not empty. The error
// is a [*NotFoundError].
func LookPath(command, path, dir string) (string, error) {
	if strings.ContainsAny(command, pathSeparators) {
		file := command
		if dir != "" && !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		found, err := executable(file, extensions())
		if err != nil {
			return "", &NotFoundError{Command: command, Err: err}
		}
		return found, nil
	}
	notFound := &NotFoundError{Command: command, Path: path, Err: exec.ErrNotFound}
	if command == "" {
		return "", notFound
	}
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			continue
		}
		found, err := executable(filepath.Join(folder, command), extensions())
		if err == nil {
			return found, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			notFound.Err = err
		}
	}
	return "", notFound
}

// executable returns file, or file with one of the extensions, whichever may be
// executed; else exec.ErrNotFound or fs.ErrPermission.
func executable(file string, extensions []string) (string, error) {
	result := exec.ErrNotFound
	for _, extension := range extensions {
		candidate := file + extension
		info, err := os.Stat(candidate)
		switch {
		case errors.Is(err, fs.ErrPermission):
			result = fs.ErrPermission
		case err != nil || info.IsDir():
		case mayExecute(candidate, info):
			return candidate, nil
		default:
			result = fs.ErrPermission
		}
	}
	return "", result
}
