//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// detach gives cmd a session of its own, so that no terminal and no signal to the
// client's process group reaches it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}
