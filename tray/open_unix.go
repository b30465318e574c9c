//go:build unix

package tray

import (
	"os/exec"
	"runtime"
	"syscall"
)

// opener is the command that opens a file with the desktop's program for it.
func opener(path string) *exec.Cmd {
	if runtime.GOOS == "darwin" {
		return exec.Command("open", "-t", path) // as text
	}
	return exec.Command("xdg-open", path)
}

// detach gives cmd a session of its own: what stops the app does not stop it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
