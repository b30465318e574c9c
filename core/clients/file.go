package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFileSize is far above what a client writes, histories included.
const maxFileSize = 256 << 20

// errChanged says that a file is not what it was when it was read.
var errChanged = errors.New("the file was changed meanwhile")

// snapshot is a file as it was read.
type snapshot struct {
	// path is where the file lies, links followed.
	path   string
	exists bool
	text   []byte
	mode   fs.FileMode
}

// takeSnapshot reads the file at path. One that does not exist has no text, and is to
// be created for its user alone; what else keeps it from being read is an error.
func takeSnapshot(path string) (snapshot, error) {
	s := snapshot{path: path, mode: 0o600}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return s, fmt.Errorf("%s is a link to a file that does not exist", path)
		}
		return s, checkFolder(path, os.Geteuid())
	}
	if err != nil {
		return s, fmt.Errorf("finding the client's file: %w", err)
	}
	s.path = real
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return s, fmt.Errorf("looking at the client's file: %w", err)
	case !info.Mode().IsRegular():
		return s, fmt.Errorf("%s is not a regular file", real) // reading a pipe would wait
	case info.Size() > maxFileSize:
		return s, fmt.Errorf("%s is larger than %d MiB: this is not a client's configuration", real, maxFileSize>>20)
	}
	if err := checkOwner(real, info, os.Geteuid()); err != nil {
		return s, err
	}
	s.exists, s.mode = true, info.Mode().Perm()
	if s.text, err = os.ReadFile(real); err != nil {
		return s, fmt.Errorf("reading the client's file: %w", err)
	}
	return s, nil
}

// check fails with [errChanged] when the file is not as it was read.
func (s snapshot) check() error {
	now, err := os.ReadFile(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if s.exists {
			return errChanged
		}
		return nil
	case err != nil:
		return fmt.Errorf("reading the client's file again: %w", err)
	case !s.exists || !bytes.Equal(now, s.text):
		return errChanged
	}
	return nil
}

// remove deletes the file.
func (s snapshot) remove() error {
	if err := s.check(); err != nil {
		return err
	}
	if err := os.Remove(s.path); err != nil {
		return fmt.Errorf("removing the client's file: %w", err)
	}
	return nil
}

// replace puts text in the file's place, in one step. Readers see the old file or the
// new one, and so does who looks after a crash.
func (s snapshot) replace(text []byte) error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return fmt.Errorf("creating the folder of the client's file: %w", err)
	}
	// Package renameio does the same, but not on Windows, where os.Rename replaces
	// a file as well.
	next, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("writing beside the client's file: %w", err)
	}
	err = s.fill(next, text)
	if err == nil {
		err = s.check()
	}
	if err == nil {
		err = os.Rename(next.Name(), s.path)
	}
	if err != nil {
		_ = os.Remove(next.Name()) // the first error says why
		return fmt.Errorf("replacing the client's file: %w", err)
	}
	return nil
}

// fill writes and closes the file that is to be the next one.
func (s snapshot) fill(next *os.File, text []byte) error {
	_, err := next.Write(text)
	if err == nil {
		err = next.Chmod(s.mode)
	}
	if err == nil {
		err = next.Sync()
	}
	return errors.Join(err, next.Close())
}
