//go:build unix

package upstream

import (
	"os/exec"
	"syscall"
)

// group has nothing of its own: the leader's pid is the id of the process group.
type group struct{}

// launch starts cmd as the leader of a new process group.
func launch(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, pid: cmd.Process.Pid, exited: make(chan struct{})}
	go p.await()
	return p, nil
}
