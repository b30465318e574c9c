package autostart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLaunchAgent(t *testing.T) {
	home := t.TempDir()
	program := filepath.Join(home, "my <apps> & more", "mcp-funnel")
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	l := newLaunchAgent(Options{Program: program, Home: home})
	e := &Entry{place: l}
	is := func(on bool) {
		t.Helper()
		if got, err := e.Status(); err != nil || got != (Status{On: on, File: l.path}) {
			t.Errorf("%+v, %v; want %v", got, err, on)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is(false)
	must(e.Enable())
	must(e.Enable())
	is(true)
	data, err := os.ReadFile(l.path)
	must(err)
	if got := plistProgram(data); got != program || strings.Contains(string(data), "KeepAlive") {
		t.Errorf("it starts %q:\n%s", got, data)
	}
	if again, err := e.Refresh(); err != nil || again {
		t.Errorf("refreshed %v, %v", again, err)
	}
	must(os.WriteFile(l.path, []byte(strings.ReplaceAll(string(data), "more", "gone")), 0o600))
	if again, err := e.Refresh(); err != nil || !again {
		t.Errorf("refreshed %v, %v; want the new path", again, err)
	}
	must(e.Disable())
	is(false)
	must(e.Disable())

	foreign := strings.ReplaceAll(string(data), plistMarker, "<!-- mine -->")
	off := strings.Replace(foreign, "<dict>", "<dict><key>Disabled</key><true/>", 1)
	for text, on := range map[string]bool{foreign: true, off: false} {
		must(os.WriteFile(l.path, []byte(text), 0o600))
		is(on)
		change := e.Enable
		if on {
			change = e.Disable
		}
		if err := change(); err == nil || !strings.Contains(err.Error(), "yourself") {
			t.Errorf("somebody else's file was changed: %v", err)
		}
		if again, err := e.Refresh(); err != nil || again {
			t.Errorf("refreshed %v, %v", again, err)
		}
		if now, _ := os.ReadFile(l.path); string(now) != text {
			t.Error("somebody else's file was changed")
		}
	}
}

// What the user has made of it is not taken for a program that was moved.
func TestInvariant9_RefreshKeepsAnEditedAgent(t *testing.T) {
	l := &launchAgent{path: filepath.Join(t.TempDir(), "x.plist"), options: Options{Program: "/opt/mcp-funnel"}}
	text := string(plistText([]string{"mcp-funnel", "tray"}))
	if err := os.WriteFile(l.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := l.refresh(); err != nil || again {
		t.Errorf("refreshed %v, %v", again, err)
	}
	if now, _ := os.ReadFile(l.path); string(now) != text {
		t.Errorf("it became %s", now)
	}
}

func FuzzPlist(f *testing.F) {
	f.Add(plistText([]string{"/a b", "tray"}), "/x<&>")
	f.Add([]byte("<plist><dict><key>Disabled</key><true/>"), "")
	f.Fuzz(func(t *testing.T, data []byte, program string) {
		plistProgram(data)
		plistDisabled(data)
		text := plistText([]string{program, "tray"})
		if plistDisabled(text) {
			t.Fatalf("off: %s", text)
		}
		if got := plistProgram(text); got != program && isText(program) {
			t.Fatalf("%q is read as %q", program, got)
		}
	})
}

// isText reports whether XML can say s.
func isText(s string) bool {
	for _, r := range s {
		if r < ' ' && r != '\t' && r != '\n' || r == 0xfffd || r >= 0xfffe && r <= 0xffff {
			return false
		}
	}
	return true
}
