package singleton

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

const (
	// guardEvery is how often the holder looks whether its files are its own.
	guardEvery = 30 * time.Second
	// touchEvery keeps cleaners of temporary folders away from the files: the XDG
	// base directory specification asks for every 6 hours at least.
	touchEvery = time.Hour
)

// Instance is the one that holds the lock. Make it with [Acquire] or [Claim] and
// end it with Close.
type Instance struct {
	dir  string
	lock *flock.Flock

	mu       sync.Mutex // guards what follows
	info     Info
	listener *listener // nil before Listen
	lockFile ownFile
	socket   ownFile
	pid      ownFile
	json     ownFile
	closed   bool
}

// Acquire takes the lock in dir, an existing runtime folder, and does nothing
// else. It fills in info's PID, StartTime and Exe. It fails with a
// [*RunningError] when another instance holds the lock.
func Acquire(dir string, info Info) (*Instance, error) {
	// One that only looks whether the lock is held takes it for an instant.
	const patience = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var inst *Instance
	var lastErr error
	err := backoff{2 * time.Millisecond, 10 * time.Millisecond}.until(ctx, func() (bool, error) {
		inst, lastErr = tryAcquire(dir, info)
		var running *RunningError
		return !errors.As(lastErr, &running), nil
	})
	if err != nil || lastErr != nil {
		return nil, lastErr
	}
	return inst, nil
}

// tryAcquire is Acquire with a single try.
func tryAcquire(dir string, info Info) (*Instance, error) {
	self, err := info.ofThisProcess()
	if err != nil {
		return nil, fmt.Errorf("taking the lock: %w", err)
	}
	path := filepath.Join(dir, lockName)
	lock, err := tryLock(path)
	if err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, newRunningError(holder(dir), info)
	}
	own, err := remember(path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("taking the lock: %w", err), lock.Unlock())
	}
	return &Instance{dir: dir, lock: lock, info: self, lockFile: own}, nil
}

// Dir is the runtime folder.
func (i *Instance) Dir() string { return i.dir }

// Info is what funnel.json says, or will say once Listen has written it.
func (i *Instance) Info() Info {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.info
}

// Listen opens the socket (0600) and then writes funnel.pid and funnel.json. A
// socket that is there was left by a dead instance, for we hold the lock: it is
// removed. The listener's Accept survives a shortage of file descriptors or
// memory, and hangs up on peers of another user by itself. It may be closed
// before the Instance is; the socket's path stays until then.
func (i *Instance) Listen() (net.Listener, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed || i.listener != nil {
		return nil, errors.New("listening: this instance is closed or listens already")
	}
	if err := i.lockFile.check(); err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	if err := i.open(); err != nil {
		err = fmt.Errorf("listening: %w", err)
		return nil, errors.Join(err, i.withdraw())
	}
	return i.listener, nil
}

// open does the steps of Listen; after a failure withdraw undoes those done.
func (i *Instance) open() error {
	path, err := socketPath(i.dir)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the socket of an instance that died: %w", err)
	}
	inner, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	inner.SetUnlinkOnClose(false) // it would remove whatever is at the path then
	i.listener = newListener(inner)
	if i.socket, err = remember(path); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	pid := strconv.AppendInt(nil, int64(i.info.PID), 10)
	if i.pid, err = writeOwn(filepath.Join(i.dir, pidName), append(pid, '\n')); err != nil {
		return err
	}
	return i.writeInfo(i.info)
}

// writeInfo writes funnel.json. The caller holds i.mu.
func (i *Instance) writeInfo(info Info) error {
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	written, err := writeOwn(filepath.Join(i.dir, infoName), append(text, '\n'))
	if err != nil {
		return err
	}
	i.json = written
	i.info = info
	return nil
}

// SetMode says in funnel.json that the instance is now in mode, [ModeTray] or
// [ModeHeadless]; before Listen it is only noted. It fails with a
// [*DisplacedError], and writes nothing, when the lock is no longer ours.
func (i *Instance) SetMode(mode string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	info := i.info
	info.Mode = mode
	if i.json.made == nil {
		i.info = info
		return nil
	}
	err := i.lockFile.check()
	if err == nil {
		err = i.writeInfo(info)
	}
	if err != nil {
		return fmt.Errorf("noting the mode %s: %w", mode, err)
	}
	return nil
}

// Guard checks every 30 s that the lock, the socket and the pid file are still
// this instance's own and returns a [*DisplacedError] when they are not: then it
// is time to quit. Otherwise it returns the cause of ctx when that ends.
func (i *Instance) Guard(ctx context.Context) error {
	ticker := time.NewTicker(guardEvery)
	defer ticker.Stop()
	touched := time.Now()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-ticker.C:
			var displaced *DisplacedError
			// Any other error says that we could not look: no reason to quit.
			if err := i.check(); errors.As(err, &displaced) {
				return displaced
			}
			if now.Sub(touched) >= touchEvery {
				i.touch(now)
				touched = now
			}
		}
	}
}

// check looks at the files by which others find this instance.
func (i *Instance) check() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return nil
	}
	return errors.Join(i.lockFile.check(), i.socket.check(), i.pid.check())
}

// touch marks everything in the runtime folder as in use. What cannot be marked
// is merely as exposed to cleaners as before, so failures are of no interest.
func (i *Instance) touch(now time.Time) {
	entries, err := os.ReadDir(i.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			_ = os.Chtimes(filepath.Join(i.dir, e.Name()), now, now)
		}
	}
	_ = os.Chtimes(i.dir, now, now)
}

// Close stops listening, removes the pid file, the json and the socket, each only
// if it is still this instance's own, and then releases the lock. The lock file
// stays. Calling it again does nothing.
func (i *Instance) Close() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return nil
	}
	i.closed = true
	return errors.Join(i.withdrawLocked(), i.lock.Unlock())
}

// withdrawLocked is withdraw under the lock at the path: where that is not ours
// any more, it is taken anew first, and without it nothing is touched.
func (i *Instance) withdrawLocked() error {
	if i.lockFile.check() == nil {
		return i.withdraw()
	}
	again, err := tryLock(i.lockFile.path)
	if again == nil { // another instance has it, or the folder is gone
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return errors.Join(err, i.stopListening())
	}
	return errors.Join(i.withdraw(), again.Unlock())
}

// withdraw removes what open made. The files go before the listener does: while
// it is open the system gives the socket's inode number to no other file.
func (i *Instance) withdraw() error {
	err := errors.Join(i.pid.remove(), i.json.remove(), i.socket.remove())
	i.pid, i.json, i.socket = ownFile{}, ownFile{}, ownFile{}
	return errors.Join(err, i.stopListening())
}

func (i *Instance) stopListening() error {
	if i.listener == nil {
		return nil
	}
	err := i.listener.Close()
	i.listener = nil
	return err
}
