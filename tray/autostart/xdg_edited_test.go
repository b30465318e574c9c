//go:build unix

package autostart

import (
	"os"
	"strings"
	"testing"
)

// edited is an entry of ours in which the user has changed more than the program.
func edited(exec, tryExec string) string {
	return "[Desktop Entry]\nType=Application\nName=Mine\nExec=" + exec + "\nX-GNOME-Autostart-Delay=10\n# mine\nTryExec=" +
		tryExec + "\n" + marker + "=true\n\n[Other]\nExec=x\n"
}

// mode is the permissions of the user's entry.
func (l *login) mode() os.FileMode {
	l.t.Helper()
	info, err := os.Stat(l.own)
	l.must(err)
	return info.Mode().Perm()
}

// Invariant 9: a start changes nothing but the path of a program that was moved.
func TestInvariant9_RefreshKeepsTheUsersEdits(t *testing.T) {
	l := newLogin(t, "bin")
	gone := "/gone/mcp-funnel"
	for _, exec := range []string{
		"env FOO=1 " + l.program + " tray", "env FOO=1 " + gone + " tray", "/gone/env " + gone + " tray",
		"mcp-funnel tray", "sh -c \"sleep 5; exec mcp-funnel tray\"", "\"unclosed", l.program + " tray", "/",
	} {
		for _, tryExec := range []string{gone, l.program, "mcp-funnel", ""} {
			text := edited(exec, tryExec)
			l.write(l.own, text)
			l.refreshes(false)
			l.must(l.entry().Enable())
			if got := l.read(l.own); got != text {
				t.Errorf("%s, %s: it became\n%s", exec, tryExec, got)
			}
		}
	}
	l.write(l.own, edited(gone+" tray --config \"my file\"", gone))
	l.refreshes(true)
	want := edited(quoteExec([]string{l.program, "tray", "--config", "my file"}), l.program)
	if got := l.read(l.own); got != want || l.mode() != 0o600 {
		t.Errorf("mode %o, and it became\n%s\nwant\n%s", l.mode(), got, want)
	}
	l.refreshes(false)
	l.must(os.Chmod(l.program, 0)) // it is there, if of no use
	l.refreshes(false)
}

// Invariant 9: switching on changes what keeps it from starting, and no more.
func TestInvariant9_EnableKeepsTheRest(t *testing.T) {
	l := newLogin(t, "bin")
	exec := quoteExec([]string{l.program, "tray"})
	for name, c := range map[string]struct{ before, after string }{
		"ours, by another program": {edited("/usr/bin/env tray", "/usr/bin/env"), edited(exec, l.program)},
		"ours, hidden":             {strings.Replace(edited(exec, l.program), "# mine", "# mine\nHidden=true", 1), edited(exec, l.program)},
		"ours, off in GNOME": {
			edited(exec, l.program+"\n"+gnomeSwitch+"=false"), edited(exec, l.program+"\n"+gnomeSwitch+"=true"),
		},
		"somebody's without a command": {
			"[Desktop Entry]\nType=Application\n# keep me\nName=Trichter\nHidden=true\nOnlyShowIn=XFCE;\n",
			"[Desktop Entry]\nTryExec=" + l.program + "\nExec=" + exec + "\nType=Application\n# keep me\nName=Trichter\nOnlyShowIn=XFCE;\n",
		},
		"a comment": {
			"# keep me\n",
			"# keep me\n[Desktop Entry]\nType=Application\nName=MCP Funnel\nTryExec=" + l.program + "\nExec=" + exec + "\n",
		},
	} {
		l.write(l.own, c.before)
		for range 2 {
			l.must(l.entry().Enable())
			if got := l.read(l.own); got != c.after || l.mode() != 0o600 {
				t.Errorf("%s: mode %o, and it became\n%s\nwant\n%s", name, l.mode(), got, c.after)
			}
			l.is(true, l.own)
		}
	}
}

// A desktop that does not know GNOME's key would start it all the same.
func TestDisableHidesWhatGNOMEHasSwitchedOff(t *testing.T) {
	l := newLogin(t, "bin")
	l.write(l.own, forEverybody+gnomeSwitch+"=false\n")
	l.must(l.entry().Disable())
	hidden := l.read(l.own)
	if want := strings.Replace(forEverybody, group+"\n", group+"\nHidden=true\n", 1) + gnomeSwitch + "=false\n"; hidden != want {
		t.Errorf("it became\n%s\nwant\n%s", hidden, want)
	}
	l.must(l.entry().Disable())
	if l.read(l.own) != hidden {
		t.Error("doing it twice changed it")
	}
	l.must(l.entry().Enable())
	l.is(true, l.own)
}
