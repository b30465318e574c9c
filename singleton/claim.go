package singleton

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"mcp-funnel/singleton/process"
)

// ClaimOptions say who wants to be the one instance, and how much.
type ClaimOptions struct {
	// Dir is the runtime folder.
	Dir string
	// Info is about this process; see [Acquire].
	Info Info
	// Replace takes over from whichever instance runs.
	Replace bool
	// Desktop says that this start is to show a tray and has a usable desktop:
	// reason enough to take over from an instance that runs headless.
	Desktop bool
	// Log is told when a process is ended; nil drops that.
	Log *slog.Logger
}

// StoppedError says that the holder of the lock is stopped and hence silent.
type StoppedError struct {
	PID int
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("already running (pid %d), but that process is stopped: wake it with `kill -CONT %d`, or start with --replace to end it",
		e.PID, e.PID)
}

// claimTimes are how long a claim waits for what.
type claimTimes struct {
	answer time.Duration // for the first instance to answer, before it is stale
	leave  time.Duration // for it to leave when asked
	term   time.Duration // after SIGTERM
	kill   time.Duration // after SIGKILL
}

// Claim acquires the lock as a second start does. When another instance holds it
// and answers, the error is a [*RunningError], unless this one is to take over:
// then the first is asked to quit and has 15 s for it. When it does not answer,
// Claim keeps trying. After 10 s without an answer the holder is stale, and
// ended: but only if the lock is held, and the process that funnel.json names
// has that pid, start time and program; else the error is an [*UnprovenError]
// and nobody is signalled. One that is stopped is reported at once, with a
// [*StoppedError]; with Replace it is ended.
func Claim(ctx context.Context, o ClaimOptions) (*Instance, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := claim{ClaimOptions: o, claimTimes: claimTimes{
		answer: 10 * time.Second,
		leave:  30 * time.Second, // running calls end first, then the servers
		term:   5 * time.Second,
		kill:   5 * time.Second,
	}}
	return c.run(ctx)
}

// claim is one call of Claim.
type claim struct {
	ClaimOptions
	claimTimes

	first    Info      // the holder as known so far
	deadline time.Time // until when it may be silent
	asked    bool      // whether one was asked to leave
}

func (c *claim) run(ctx context.Context) (*Instance, error) {
	pace := backoff{10 * time.Millisecond, 100 * time.Millisecond}
	for {
		inst, err := tryAcquire(c.Dir, c.Info)
		var running *RunningError
		if !errors.As(err, &running) {
			return inst, err
		}
		c.meet(running.Info)
		if err := c.confront(ctx); err != nil {
			return nil, err
		}
		if !pace.pause(ctx.Done()) {
			return nil, fmt.Errorf("waiting for the running instance: %w", context.Cause(ctx))
		}
	}
}

// meet notes who holds the lock; a new holder gets the full time to answer.
func (c *claim) meet(first Info) {
	if c.deadline.IsZero() || first.PID != c.first.PID || first.StartTime != c.first.StartTime {
		c.deadline = time.Now().Add(c.answer)
	}
	c.first = first
}

// confront finds out what the holder is up to. It returns nil when there is
// reason to try the lock again.
func (c *claim) confront(ctx context.Context) error {
	if c.first.PID != 0 && process.Stopped(c.first.PID) {
		if !c.Replace {
			return &StoppedError{c.first.PID}
		}
		return c.evict(ctx, "it is stopped")
	}
	if time.Until(c.deadline) <= 0 {
		return c.evict(ctx, "it does not answer")
	}
	dialCtx, cancel := context.WithDeadline(ctx, c.deadline)
	defer cancel()
	conn, w, err := Dial(dialCtx, c.Dir, Hello{Role: RoleControl, Version: c.Info.Version})
	if err == nil {
		defer func() { _ = conn.Close() }()
		return c.answered(ctx, conn, w)
	}
	switch {
	case foreign(err):
		return err
	case answered(err) && c.Replace:
		return c.evict(ctx, "it is of another version and cannot be asked to leave")
	case answered(err):
		return newRunningError(holder(c.Dir), c.Info)
	}
	return nil // nobody listens yet, or no longer, or it took too long
}

// answered deals with a holder that is well.
func (c *claim) answered(ctx context.Context, conn *Conn, w Welcome) error {
	first := holder(c.Dir) // it has written that before it could answer
	if first.PID == 0 {
		first = Info{PID: peerPID(conn), Mode: w.Mode}
	}
	mode := w.Mode
	if mode == "" {
		mode = first.Mode
	}
	takeOver := c.Replace || c.Desktop && mode == ModeHeadless
	if !takeOver || c.asked {
		return newRunningError(first, c.Info)
	}
	c.asked = true // once: two that replace each other would never end
	c.Log.Info("asking the running instance to make way", "pid", first.PID)
	const quit = `{"jsonrpc":"2.0","id":1,"method":"quit","params":{"reason":"replace"}}` + "\n"
	if _, err := io.WriteString(conn, quit); err != nil {
		return nil // it is leaving already, or the next round will tell
	}
	leaveCtx, cancel := context.WithTimeout(ctx, c.leave)
	defer cancel()
	err := backoff{10 * time.Millisecond, 100 * time.Millisecond}.until(leaveCtx, func() (bool, error) {
		busy, err := held(c.Dir)
		next := holder(c.Dir)
		replaced := next.PID != 0 && (next.PID != first.PID || next.StartTime != first.StartTime)
		return !busy || replaced, err // somebody else may have been quicker, and may stay
	})
	if err != nil {
		return fmt.Errorf("pid %d was asked to make way and still holds the lock: %w", first.PID, err)
	}
	return nil
}
