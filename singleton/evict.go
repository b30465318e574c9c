package singleton

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mcp-funnel/singleton/process"
)

// UnprovenError says that the lock is held by an instance that should be ended,
// and that it is not certain which process that is: none was signalled.
type UnprovenError struct {
	// Dir is the runtime folder.
	Dir string
	// Why is what is wrong with the instance, Doubt what is uncertain about it.
	Why, Doubt string
}

func (e *UnprovenError) Error() string {
	lock := filepath.Join(e.Dir, lockName)
	return fmt.Sprintf("an instance holds %s and should be ended (%s), but which process it is cannot be proven (%s): "+
		"find it with `fuser %s`, end it and start again", lock, e.Why, e.Doubt, lock)
}

// evict ends the process that holds the lock: proven to be it, asked with
// SIGTERM and in the end with SIGKILL. It returns once the lock is free.
func (c *claim) evict(ctx context.Context, why string) error {
	info, err := ReadInfo(c.Dir)
	if err != nil {
		return &UnprovenError{c.Dir, why, "funnel.json does not tell"}
	}
	// From here on p is this process or none: Linux keeps a pidfd in it, so that
	// a pid handed out anew after the proof is not what gets the signal.
	p, err := os.FindProcess(info.PID)
	if err != nil {
		return &UnprovenError{c.Dir, why, fmt.Sprintf("there is no process %d", info.PID)}
	}
	defer func() { _ = p.Release() }()
	busy, err := held(c.Dir)
	if err != nil || !busy {
		return err // gone by itself
	}
	doubt := doubtAbout(info)
	if again, err := ReadInfo(c.Dir); err != nil || again != info {
		doubt = "funnel.json changed meanwhile"
	}
	if doubt != "" {
		return &UnprovenError{c.Dir, why, doubt}
	}
	c.Log.Warn("ending the running instance", "pid", info.PID, "reason", why)
	if err := terminate(p); err == nil || errors.Is(err, os.ErrProcessDone) {
		if gone, err := c.goneWithin(ctx, c.term); gone || err != nil {
			return err
		}
	}
	c.Log.Warn("killing the running instance, which did not end", "pid", info.PID)
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing pid %d: %w", info.PID, err)
	}
	gone, err := c.goneWithin(ctx, c.kill)
	if err == nil && !gone {
		err = fmt.Errorf("pid %d was killed and still holds %s", info.PID, filepath.Join(c.Dir, lockName))
	}
	return err
}

// doubtAbout says what keeps info from being about the process that has its pid
// now; "" when nothing does.
func doubtAbout(info Info) string {
	if info.PID == os.Getpid() {
		return "funnel.json names this very process"
	}
	if !process.Alive(info.PID, info.StartTime) {
		return fmt.Sprintf("process %d is not the one that funnel.json names", info.PID)
	}
	exe, err := process.Exe(info.PID)
	if err != nil || info.Exe == "" || exe != info.Exe {
		return fmt.Sprintf("process %d does not run %q", info.PID, info.Exe)
	}
	return ""
}

// goneWithin reports whether the lock came free within d. Its error is about ctx,
// or about looking.
func (c *claim) goneWithin(ctx context.Context, d time.Duration) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := WaitGone(limited, c.Dir)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}
