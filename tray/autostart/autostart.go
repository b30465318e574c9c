package autostart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// id names the entry: it is the base of the file's name and must not change.
const id = "mcp-funnel"

// Options says for whom and what to start. All fields are required.
type Options struct {
	// Program is the absolute path of the program; see [Program].
	Program string
	// Home is the user's home folder.
	Home string
	// Environ looks up an environment variable.
	Environ func(string) string
}

// arguments is what is started, the program first. It holds nothing of the user's:
// not all desktops agree on how to quote.
func (o Options) arguments() []string { return []string{o.Program, "tray"} }

// Status says how things stand.
type Status struct {
	// On: the desktop is to start the program at login.
	On bool
	// File is where that is said, or would be: a path, or a registry key.
	File string
}

// Entry is the program's entry among those that are started at login. Make one
// with [New].
type Entry struct {
	place place
}

// place is where a system keeps its entries.
type place interface {
	status() (Status, error)
	enable() error
	disable() error
	// refresh mends an entry of ours that starts a program which is not there any
	// more, and reports whether it did.
	refresh() (bool, error)
}

// New returns the entry of the user that o describes. It touches nothing yet.
func New(o Options) *Entry { return &Entry{place: newPlace(o)} }

// Status reads how things stand.
func (e *Entry) Status() (Status, error) { return e.place.status() }

// Enable makes the program start at login. Doing it twice changes nothing.
func (e *Entry) Enable() error { return e.place.enable() }

// Disable makes it not start at login. Doing it twice changes nothing.
func (e *Entry) Disable() error { return e.place.disable() }

// Refresh writes the present path of the program into an entry that is on, that
// this program wrote, and whose program is gone, as after it was moved. It reports
// whether it did.
func (e *Entry) Refresh() (bool, error) { return e.place.refresh() }

// readFile returns nil without an error where there is no file.
func readFile(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the autostart entry: %w", err)
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

// writeFile replaces the file at path in one step, and makes its folder. A file that
// is there keeps its permissions.
func writeFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the folder for autostart entries: %w", err)
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path, dir = target, filepath.Dir(target) // a link stays one
	}
	mode := fs.FileMode(0o644) // like every other desktop entry
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	temp, err := os.CreateTemp(dir, "."+id+"-*")
	if err != nil {
		return fmt.Errorf("writing the autostart entry: %w", err)
	}
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Chmod(mode)
	}
	if closed := temp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // the error that counts is the first one
		return fmt.Errorf("writing the autostart entry: %w", err)
	}
	return nil
}

// removeFile removes a file that may be gone already.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the autostart entry: %w", err)
	}
	return nil
}
