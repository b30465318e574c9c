package tray

import "os/exec"

// opener is the command that opens a file with the program registered for it.
func opener(path string) *exec.Cmd {
	return exec.Command("rundll32.exe", "url.dll,FileProtocolHandler", path)
}

// detach has nothing to do: programs with windows have no console to lose.
func detach(*exec.Cmd) {}
