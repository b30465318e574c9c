//go:build unix

package autostart

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// login is a user who has a home, a program and perhaps an entry for everybody.
type login struct {
	t                    *testing.T
	program, own, shared string
	variables            map[string]string
}

func newLogin(t *testing.T, programDir string) *login {
	t.Helper()
	dir := t.TempDir()
	l := &login{
		t:       t,
		program: filepath.Join(dir, programDir, "mcp-funnel"),
		own:     filepath.Join(dir, "config", "autostart", "mcp-funnel.desktop"),
		shared:  filepath.Join(dir, "xdg", "autostart", "mcp-funnel.desktop"),
		variables: map[string]string{
			"XDG_CONFIG_HOME": filepath.Join(dir, "config"),
			"XDG_CONFIG_DIRS": "relative:" + filepath.Join(dir, "xdg"),
		},
	}
	l.write(l.program, "#!/bin/sh\nprintf '%s\\n' \"$0\" \"$@\" >\"$TRACE\"\n")
	if err := os.Chmod(l.program, 0o700); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *login) entry() *Entry {
	return &Entry{place: newXDGFolders(Options{
		Program: l.program, Home: l.t.TempDir(), Environ: func(name string) string { return l.variables[name] },
	})}
}

func (l *login) write(path, text string) {
	l.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// read returns "" where there is no file.
func (l *login) read(path string) string {
	l.t.Helper()
	data, err := readFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(data)
}

func (l *login) is(on bool, file string) {
	l.t.Helper()
	got, err := l.entry().Status()
	if want := (Status{On: on, File: file}); err != nil || got != want {
		l.t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func (l *login) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// C119: a program in a folder with a space in its name.
func TestC119_ExecLeadsToTheProgram(t *testing.T) {
	for _, dir := range []string{"my apps", "a$b`c\"d\\e'f", "plain", "50%", "a\tb\nc", "\xff", "ü"} {
		t.Run(dir, func(t *testing.T) {
			l := newLogin(t, dir)
			l.is(false, l.own)
			l.must(l.entry().Enable())
			l.must(l.entry().Enable())
			l.is(true, l.own)
			f := parseDesktopFile([]byte(l.read(l.own)))
			arguments, ok := splitExec(f.value("Exec"))
			if !ok || !slices.Equal(arguments, []string{l.program, "tray"}) {
				t.Errorf("Exec=%s gives %q, %v", f.value("Exec"), arguments, ok)
			}
			files, err := os.ReadDir(filepath.Dir(l.own))
			if err != nil || len(files) != 1 {
				t.Errorf("files %v, %v; want the one", files, err)
			}
			l.must(l.entry().Disable())
			l.must(l.entry().Disable())
			l.is(false, l.own)
			if files, err = os.ReadDir(filepath.Dir(l.own)); err != nil || len(files) != 0 {
				t.Errorf("left over: %v, %v", files, err)
			}
		})
	}
}

// C119: the same by another reader of such files, where it is installed. A per cent
// sign in the path is one that GLib cannot read.
func TestC119_GLibStartsTheProgram(t *testing.T) {
	gio, err := exec.LookPath("gio")
	if err != nil {
		t.Skip("gio is not installed")
	}
	for _, dir := range []string{"my apps", "a$b`c\"d\\e'f"} {
		l := newLogin(t, dir)
		l.must(l.entry().Enable())
		trace := filepath.Join(t.TempDir(), "trace")
		cmd := exec.Command(gio, "launch", l.own)
		cmd.Env = append(os.Environ(), "TRACE="+trace, "DBUS_SESSION_BUS_ADDRESS=", "HOME="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		want := l.program + "\ntray\n"
		for end := time.Now().Add(10 * time.Second); l.read(trace) != want; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("started with %q, want %q", l.read(trace), want)
			}
		}
	}
}

func TestEntryIsValid(t *testing.T) {
	validator, err := exec.LookPath("desktop-file-validate")
	if err != nil {
		t.Skip("desktop-file-validate is not installed")
	}
	l := newLogin(t, "my apps")
	l.must(l.entry().Enable())
	if out, err := exec.Command(validator, l.own).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestConfigHomeIsHonoured(t *testing.T) {
	for value, want := range map[string]string{
		"/elsewhere": "/elsewhere/autostart/mcp-funnel.desktop",
		"":           "/home/u/.config/autostart/mcp-funnel.desktop",
		"relative":   "/home/u/.config/autostart/mcp-funnel.desktop",
	} {
		x := newXDGFolders(Options{Home: "/home/u", Environ: func(name string) string {
			return map[string]string{"XDG_CONFIG_HOME": value}[name]
		}})
		if x.own != want || !slices.Equal(x.shared, []string{"/etc/xdg/autostart/mcp-funnel.desktop"}) {
			t.Errorf("%q: %s and %s, want %s", value, x.own, x.shared, want)
		}
	}
}

const forEverybody = "[Desktop Entry]\nType=Application\nName=MCP Funnel\nExec=mcp-funnel tray\n"

func TestEntryForEverybodyIsMasked(t *testing.T) {
	l := newLogin(t, "bin")
	l.write(l.shared, forEverybody)
	l.is(true, l.shared)
	l.must(l.entry().Disable())
	l.is(false, l.own)
	if got := l.read(l.own); !strings.Contains(got, "\nHidden=true\n") {
		t.Errorf("it is not masked: %s", got)
	}
	l.must(l.entry().Disable())
	if refreshed, err := l.entry().Refresh(); err != nil || refreshed {
		t.Errorf("switched on behind the user's back: %v, %v", refreshed, err)
	}
	l.is(false, l.own)
	l.must(l.entry().Enable())
	l.is(true, l.own)
	l.must(l.entry().Disable())
	l.is(false, l.own)
	l.must(os.Remove(l.own))
	l.is(true, l.shared)
	if l.read(l.shared) != forEverybody {
		t.Error("the entry for everybody was changed")
	}
}

// Invariant 9: what we do not understand is kept.
func TestInvariant9_TheUsersOwnEntryIsKept(t *testing.T) {
	const own = "# mine\n[Desktop Entry]\nName=My funnel\nName[de]=Trichter\nExec=/opt/funnel --config x tray\nX-Mine=1\n\n[Desktop Action a]\nHidden=no\n"
	l := newLogin(t, "bin")
	l.write(l.own, own)
	l.is(true, l.own)
	l.must(l.entry().Enable())
	if got := l.read(l.own); got != own {
		t.Errorf("switching on what is on changed it: %s", got)
	}
	if refreshed, err := l.entry().Refresh(); err != nil || refreshed || l.read(l.own) != own {
		t.Errorf("a start changed it: %v, %v", refreshed, err)
	}
	l.must(l.entry().Disable())
	l.is(false, l.own)
	if got := l.read(l.own); !strings.Contains(got, "X-Mine=1") || !strings.Contains(got, "[Desktop Action a]\nHidden=no\n") {
		t.Errorf("something was lost: %s", got)
	}
	hidden := l.read(l.own)
	if refreshed, err := l.entry().Refresh(); err != nil || refreshed || l.read(l.own) != hidden {
		t.Errorf("the user's Hidden=true was not respected: %v, %v", refreshed, err)
	}
	l.must(l.entry().Enable())
	if got := l.read(l.own); got != own {
		t.Errorf("off and on again gives\n%s\nwant\n%s", got, own)
	}
}

func TestStalePathIsRewrittenInOurFileOnly(t *testing.T) {
	l := newLogin(t, "old")
	l.must(l.entry().Enable())
	l.refreshes(false) // all is well
	moved := filepath.Join(filepath.Dir(filepath.Dir(l.program)), "new place", "mcp-funnel")
	l.must(os.MkdirAll(filepath.Dir(moved), 0o700))
	l.must(os.Rename(l.program, moved))
	l.program = moved
	l.refreshes(true)
	if arguments, _ := splitExec(parseDesktopFile([]byte(l.read(l.own))).value("Exec")); arguments[0] != moved {
		t.Errorf("it starts %s, want %s", arguments[0], moved)
	}
	l.refreshes(false)

	l.write(l.own, strings.ReplaceAll(strings.ReplaceAll(l.read(l.own), moved, "/gone"), marker+"=true\n", ""))
	l.refreshes(false) // not ours any more
	l.must(os.Remove(l.own))
	l.refreshes(false)
	if l.read(l.own) != "" {
		t.Error("a start switched it on")
	}
}

func (l *login) refreshes(want bool) {
	l.t.Helper()
	if got, err := l.entry().Refresh(); err != nil || got != want {
		l.t.Errorf("refreshed %v, %v; want %v", got, err, want)
	}
}

func TestDesktopsSwitchIsHonoured(t *testing.T) {
	l := newLogin(t, "bin")
	for line, on := range map[string]bool{
		"Hidden=true": false, "Hidden=false": true, "X-GNOME-Autostart-enabled=false": false,
		"Hidden = true": false, "#Hidden=true": true, "Hidden[de]=true": true,
	} {
		l.write(l.own, forEverybody+line+"\n")
		l.is(on, l.own)
	}
	l.write(l.own, "Exec=before any group\n")
	l.is(false, l.own)
	l.must(l.entry().Enable())
	l.is(true, l.own)
}

// Bad input: nothing is lost and nothing is written when reading fails.
func TestUnreadableEntryIsLeftAlone(t *testing.T) {
	l := newLogin(t, "bin")
	l.must(os.MkdirAll(l.own, 0o700)) // a folder
	for name, f := range map[string]func() error{
		"enable": l.entry().Enable, "disable": l.entry().Disable,
		"status":  func() error { _, err := l.entry().Status(); return err },
		"refresh": func() error { _, err := l.entry().Refresh(); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), l.own) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLinkStaysALink(t *testing.T) {
	l := newLogin(t, "bin")
	target := filepath.Join(t.TempDir(), "dotfiles.desktop")
	l.write(target, "")
	l.must(os.MkdirAll(filepath.Dir(l.own), 0o700))
	l.must(os.Symlink(target, l.own))
	l.must(l.entry().Enable())
	if info, err := os.Lstat(l.own); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if !bytes.Contains([]byte(l.read(target)), []byte("Exec=")) {
		t.Error("the file that the link leads to was not written")
	}
}

func FuzzDesktopFile(f *testing.F) {
	f.Add([]byte(forEverybody), "a b")
	f.Add([]byte("# x\n[Desktop Entry]\nHidden=true\n[Other]\nHidden=false"), `C:\x "y" $z %f`)
	f.Add([]byte("\r\n[Desktop Entry]\r\n==\n"), "")
	f.Fuzz(func(t *testing.T, data []byte, argument string) {
		file := parseDesktopFile(data)
		lines := len(file)
		hidden := file.set("Hidden", "true")
		if got := hidden.value("Hidden"); got != "true" || starts(hidden) {
			t.Fatalf("Hidden is %q in %q", got, hidden)
		}
		if again := parseDesktopFile(hidden.bytes()); again.value("Hidden") != "true" || again.value("Exec") != file.value("Exec") {
			t.Fatalf("%q read again is %q", hidden, again)
		}
		if back := hidden.set("Hidden", ""); back.value("Hidden") != "" || len(back) > lines+1 {
			t.Fatalf("%q after Hidden was taken out again: %q", file, back)
		}
		splitExec(file.value("Exec"))
		if strings.ContainsRune(argument, 0) {
			return // no path has that
		}
		want := []string{argument, "tray"}
		written := desktopFile{group, "Exec=" + quoteExec(want)}
		value := parseDesktopFile(written.bytes()).value("Exec")
		if got, ok := splitExec(value); !ok || !slices.Equal(got, want) {
			t.Fatalf("%q is written as %s and read as %q, %v", want, value, got, ok)
		}
	})
}
