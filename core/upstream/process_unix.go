//go:build unix && !linux

package upstream

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// await waits for the exit. x/sys has no waitid here, so the leader is reaped at
// once; the group keeps its id as long as a member lives.
func (p *process) await() {
	defer close(p.exited)
	// Wait reports the exit status as an error; ProcessState has it as well.
	_ = p.cmd.Wait()
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		p.exit = exitStatus{code: -1, cause: "ended"}
	case status.Signaled():
		p.exit = exitStatus{code: -1, cause: "signal: " + status.Signal().String()}
	default:
		p.exit = exitStatus{code: status.ExitStatus(), cause: fmt.Sprintf("exit code %d", status.ExitStatus())}
	}
}

// signalGroup sends SIGTERM, or SIGKILL, to the whole group.
func (p *process) signalGroup(kill bool) {
	signal := unix.SIGTERM
	if kill {
		signal = unix.SIGKILL
	}
	// It fails only when nobody is left, which is what we want.
	_ = unix.Kill(-int(p.group), signal)
}

// groupAlive reports whether somebody of the group lives.
func (p *process) groupAlive() bool { return !errors.Is(unix.Kill(-int(p.group), 0), unix.ESRCH) }

// reap does nothing: await did.
func (p *process) reap() {}

// endTagged ends the processes of a group that an earlier life recorded. Without
// /proc the tag cannot be read: only the recorded leader is proven, by its start
// time, and its group ended with it.
func endTagged(c child, kill bool) {
	if !c.leaderAlive() {
		return
	}
	signal := unix.SIGTERM
	if kill {
		signal = unix.SIGKILL
	}
	_ = unix.Kill(-c.PID, signal) // fails only when nobody is left
}

// taggedAlive reports whether something of the group is still there.
func taggedAlive(c child) bool { return c.leaderAlive() }
