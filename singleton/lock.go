package singleton

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// tryLock takes the lock file at path, which it makes (0600) when it is missing.
// It returns nil when another process holds it, or when the file was exchanged
// while it was being locked: a lock on a file that is no longer there is none.
func tryLock(path string) (*flock.Flock, error) {
	l := flock.New(path, flock.SetPermissions(0o600))
	got, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	if !got {
		return nil, nil
	}
	locked, err := l.Stat()
	if err == nil {
		var there fs.FileInfo
		if there, err = os.Lstat(path); err == nil && os.SameFile(locked, there) {
			return l, nil
		}
	}
	if unlockErr := l.Unlock(); unlockErr != nil {
		err = errors.Join(err, unlockErr)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}

// held reports whether some process holds the lock of the runtime folder dir. It
// looks by taking a shared lock for an instant, so that those who look do not
// see each other; [Acquire] bears with that instant.
func held(dir string) (bool, error) {
	l := flock.New(filepath.Join(dir, lockName), flock.SetFlag(os.O_RDONLY))
	got, err := l.TryRLock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking at the lock in %s: %w", dir, err)
	case !got:
		return true, nil
	}
	if err := l.Unlock(); err != nil {
		return false, fmt.Errorf("looking at the lock in %s: %w", dir, err)
	}
	return false, nil
}

// WaitGone blocks until no process holds the lock in dir. The error wraps the
// cause of ctx when that ends first.
func WaitGone(ctx context.Context, dir string) error {
	err := backoff{10 * time.Millisecond, 100 * time.Millisecond}.until(ctx, func() (bool, error) {
		busy, err := held(dir)
		return !busy, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the running instance to end: %w", err)
	}
	return nil
}
