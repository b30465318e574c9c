package main

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// detach frees cmd from the client's console and its Ctrl-C.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP,
		HideWindow:    true,
	}
}
