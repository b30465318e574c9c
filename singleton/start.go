package singleton

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// DialOrStart is [Dial] that has the instance started when none runs, and then
// tries on until ctx ends. dir is asked anew at each try, for the folder may
// come with a log-in. Of several callers at once, in any number of processes,
// one calls start, under start.lock, and the others wait for what comes of it.
// While a lock holder does not listen yet, or no longer, nobody calls it.
//
// start spawns the instance and need not wait for it; its failure ends the call.
// A nil start is never called: the call waits until someone else starts one. Its
// other errors are those of Dial that waiting does not mend, dir's, and, when
// ctx ends, ctx's cause together with the last error of Dial.
func DialOrStart(ctx context.Context, dir func() (string, error), h Hello, start func(ctx context.Context) error) (*Conn, Welcome, error) {
	s := starter{start: start}
	defer s.unlock()
	const shortest = 10 * time.Millisecond
	pace := backoff{shortest, 200 * time.Millisecond}
	if start == nil {
		pace.most = time.Second
	}
	for {
		at, err := dir()
		if err != nil {
			return nil, Welcome{}, err
		}
		conn, w, dialErr := Dial(ctx, at, h)
		if answered(dialErr) || foreign(dialErr) {
			return conn, w, dialErr
		}
		if errors.Is(dialErr, ErrNotRunning) {
			again, err := s.consider(ctx, at)
			if err != nil {
				return nil, Welcome{}, err
			}
			if again {
				pace.next = shortest
				continue
			}
		}
		if !pace.pause(ctx.Done()) {
			return nil, Welcome{}, fmt.Errorf("waiting for mcp-funnel: %w; last: %w", context.Cause(ctx), dialErr)
		}
	}
}

// starter decides for one caller of DialOrStart whether to start.
type starter struct {
	start   func(context.Context) error
	lock    *flock.Flock // start.lock in dir; nil while we do not hold it
	dir     string
	started bool
}

// consider takes the next step towards an instance after dialling dir found
// none: take start.lock, or, holding it, start. It reports whether to dial again
// at once.
func (s *starter) consider(ctx context.Context, dir string) (bool, error) {
	if s.start == nil || s.started || ctx.Err() != nil {
		return false, nil
	}
	if s.lock == nil || s.dir != dir {
		s.unlock()
		lock, err := tryLock(filepath.Join(dir, startLockName))
		if err != nil {
			return false, err
		}
		s.lock, s.dir = lock, dir
		return lock != nil, nil // who held it before may have started one
	}
	// One that starts up or ends holds the lock and does not listen. To start
	// another beside it would be in vain; when it ends, the next round starts.
	if busy, err := held(dir); err != nil || busy {
		return false, err
	}
	s.started = true
	if err := s.start(ctx); err != nil {
		return false, fmt.Errorf("starting mcp-funnel: %w", err)
	}
	return true, nil
}

// unlock lets another caller start.
func (s *starter) unlock() {
	if s.lock != nil {
		_ = s.lock.Unlock() // closing the file is all that can be done, and it is done
		s.lock = nil
	}
}
