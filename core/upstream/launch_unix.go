//go:build unix

package upstream

import (
	"os/exec"
	"syscall"
)

// group is the id of the process group, which is the pid of its leader.
type group int

// launch starts cmd as the leader of a new process group.
func launch(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	p := &process{cmd: cmd, pid: pid, group: group(pid), exited: make(chan struct{})}
	go p.await()
	return p, nil
}
