package upstream

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// launch starts cmd in a process group of its own and without a console window.
func launch(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, pid: cmd.Process.Pid, exited: make(chan struct{})}
	go p.await()
	return p, nil
}

func (p *process) await() {
	defer close(p.exited)
	// Wait reports the exit status as an error; ProcessState has it as well.
	_ = p.cmd.Wait()
	code := p.cmd.ProcessState.ExitCode()
	p.exit = exitStatus{code: code, cause: fmt.Sprintf("exit code %d", code)}
}

// signalGroup ends the process. Windows has no SIGTERM: the closed input was the
// polite request.
func (p *process) signalGroup(bool) {
	_ = p.cmd.Process.Kill() // fails only when it has ended already
}

func (p *process) groupAlive() bool { return false }

func (p *process) reap() {}

// endTagged ends the leader that an earlier life recorded, proven by its start
// time.
func endTagged(c child, _ bool) {
	if !c.leaderAlive() {
		return
	}
	if leader, err := os.FindProcess(c.PID); err == nil {
		_ = leader.Kill() // fails only when it has ended already
	}
}

func taggedAlive(c child) bool { return c.leaderAlive() }
