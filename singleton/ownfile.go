package singleton

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// DisplacedError says that a file of a running instance is no longer the one the
// instance made, so that others cannot find it or find another: it should quit.
type DisplacedError struct {
	Path string
}

func (e *DisplacedError) Error() string {
	return fmt.Sprintf("%s was removed or replaced: this instance can no longer be found there and has to end", e.Path)
}

// ownFile is a file this instance made, remembered as the file and not merely as
// a path. The zero ownFile stands for one not made yet.
type ownFile struct {
	path string
	made fs.FileInfo
}

// remember notes the file that is now at path.
func remember(path string) (ownFile, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return ownFile{}, err
	}
	sameFile(info, info) // Windows looks up which file it is when first asked; later may be too late
	return ownFile{path, info}, nil
}

// check returns a [*DisplacedError] when the path is empty or another file's now,
// and any other error when that cannot be told.
func (f ownFile) check() error {
	if f.made == nil {
		return nil
	}
	info, err := os.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &DisplacedError{f.path}
	case err != nil:
		return err
	case !sameFile(f.made, info):
		return &DisplacedError{f.path}
	}
	return nil
}

// remove removes the file if it is still this instance's own.
func (f ownFile) remove() error {
	var displaced *DisplacedError
	err := f.check()
	switch {
	case f.made == nil, errors.As(err, &displaced):
		return nil
	case err != nil:
		return fmt.Errorf("removing %s: %w", f.path, err)
	}
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeOwn puts a file (0600) with this text at path in one step, so that nobody
// reads half of it. Only the holder of the lock writes: the temporary file has a
// fixed name, and a crash leaves one at most.
func writeOwn(path string, text []byte) (ownFile, error) {
	temp := path + ".tmp"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ownFile{}, err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return ownFile{}, err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(0o600), f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return ownFile{}, errors.Join(err, os.Remove(temp))
	}
	return remember(path)
}
