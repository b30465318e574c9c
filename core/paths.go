package core

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"

	"github.com/adrg/xdg"
)

// StateDir is the folder for logs and what is kept over restarts:
// $XDG_STATE_HOME/mcp-funnel.
func StateDir() string {
	xdg.Reload() // the environment may have changed since the program began
	return filepath.Join(xdg.StateHome, "mcp-funnel")
}

// LogPath is the funnel's own log in a state folder.
func LogPath(stateDir string) string { return filepath.Join(stateDir, "log", "funnel.log") }

// ServerLogPath is the log of the server of that name in a state folder. Names
// that look alike once reduced to [A-Za-z0-9._-] are told apart by a hash.
func ServerLogPath(stateDir, name string) string {
	reduced := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(stateDir, "log", "server-"+reduced+"-"+hex.EncodeToString(sum[:4])+".log")
}
