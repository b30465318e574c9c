package environ

import "strings"

// ForBridgeStart reduces the environment of a bridge to what it hands to the
// app that it starts: who the user is, the desktop, the places for files, and
// this program's own settings. The app outlives the session that happened to
// start it and serves others, so nothing of that session may stay in it.
func ForBridgeStart(environ []string) []string {
	var kept []string
	for _, pair := range environ {
		if key, _, ok := splitPair(pair); ok && belongsToUser(foldKey(key)) {
			kept = append(kept, pair)
		}
	}
	return kept
}

// belongsToUser reports whether a variable is the same in all of the user's
// sessions. key is folded by foldKey.
func belongsToUser(key string) bool {
	switch key {
	case "HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", "TMPDIR",
		"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK":
		return true
	}
	for _, prefix := range []string{"LC_", "XDG_", "MCP_FUNNEL_"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return belongsToSystem(key)
}
