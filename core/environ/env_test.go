package environ

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestC13_OverlayWinsAndTheRestStays(t *testing.T) {
	base := New([]string{"HOME=/h", "PATH=/bin", "A=1", "nonsense", "A=2", "=C:=C:\\x", "E="})
	got := base.With([]string{"PATH=/x", "B=b=c", "A=3"})
	want := []string{"HOME=/h", "PATH=/x", "A=3", "=C:=C:\\x", "E=", "B=b=c"}
	if diff := cmp.Diff(want, got.Environ()); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if v, ok := base.Lookup("A"); !ok || v != "2" {
		t.Errorf("With changed its receiver: A = %q", v)
	}
	if v, ok := got.Lookup("B"); !ok || v != "b=c" {
		t.Errorf("B = %q, %v", v, ok)
	}
	if v, ok := got.Lookup("E"); !ok || v != "" {
		t.Errorf("E = %q, %v", v, ok)
	}
	if _, ok := got.Lookup("NONE"); ok {
		t.Error("NONE is there")
	}
	got.Environ()[0] = "HOME=/changed"
	if v, _ := got.Lookup("HOME"); v != "/h" {
		t.Error("Environ gives its own memory away")
	}
	if len(Env{}.With(nil).Environ()) != 0 {
		t.Error("the zero Env is not empty")
	}
}

func TestMergePath(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("paths of Unix")
	}
	for _, tc := range [][3]string{
		{"/a:/b", "/b:/c", "/a:/b:/c"},
		{"/a/:/a", "/a", "/a/"},
		{"", "/a", "/a"},
		{"/a", "", "/a"},
		{"", "", ""},
		{".:/a::bin:~/x", ":./b:/c:", "/a:/c"},
		{"/x y:/é", "/x y", "/x y:/é"},
	} {
		if got := MergePath(tc[0], tc[1]); got != tc[2] {
			t.Errorf("MergePath(%q, %q) = %q, want %q", tc[0], tc[1], got, tc[2])
		}
	}
}

func TestForBridgeStartHandsOnNothingOfOneSession(t *testing.T) {
	kept := []string{
		"HOME=/h", "USER=u", "LOGNAME=u", "SHELL=/bin/zsh", "LANG=C", "LC_ALL=C", "PATH=/bin", "TMPDIR=/t", "DISPLAY=:0",
		"WAYLAND_DISPLAY=w", "DBUS_SESSION_BUS_ADDRESS=b", "XAUTHORITY=x", "XDG_RUNTIME_DIR=/r", "XDG_CONFIG_HOME=/c",
		"SSH_AUTH_SOCK=/s", "MCP_FUNNEL_CONFIG=/f",
	}
	session := []string{
		"CLAUDE_PROJECT_DIR=/p", "CLAUDE_CODE_SESSION_ID=1", "CLAUDECODE=1", "ANTHROPIC_API_KEY=k", "VIRTUAL_ENV=/v", "PWD=/p", "OLDPWD=/q",
		"TMUX=1", "TERM=xterm", "SHLVL=3", "NODE_OPTIONS=--x", "GITHUB_TOKEN=t", "HOMEX=1", "MY_XDG_X=1", "LC=1", "LD_PRELOAD=/l", "junk",
	}
	if diff := cmp.Diff(kept, ForBridgeStart(slices.Concat(session, kept, session))); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestC121_LookPathInTheGivenPath(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes of Unix")
	}
	dir := t.TempDir()
	file := func(name string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, second := file("one/npx", 0o700), file("two/npx", 0o700)
	plain := file("one/plain", 0o600)
	only2 := file("two/only two", 0o700)
	path := filepath.Dir(first) + ":" + filepath.Dir(second)
	t.Setenv("PATH", "/nowhere")
	t.Chdir(dir) // so that a relative entry of PATH would lead somewhere
	for _, tc := range []struct{ command, path, dir, want string }{
		{"npx", path, "", first},
		{"npx", "one:.::" + filepath.Dir(second), dir, second},
		{"only two", path, "", only2},
		{first, "", "", first},
		{"./npx", "", filepath.Dir(second), second},
		{"two/npx", path, dir, second},
	} {
		if got, err := LookPath(tc.command, tc.path, tc.dir); err != nil || got != tc.want {
			t.Errorf("LookPath(%q, %q, %q) = %q, %v; want %q", tc.command, tc.path, tc.dir, got, err, tc.want)
		}
	}
	for _, tc := range []struct {
		command, path, want string
		is                  error
	}{
		{"uvx", path, `command "uvx": not found in PATH ` + path, exec.ErrNotFound},
		{"uvx", "", `command "uvx": not found (PATH is empty)`, exec.ErrNotFound},
		{"", path, `command "": not found`, exec.ErrNotFound},
		{"one", dir, `command "one": not found in PATH ` + dir, exec.ErrNotFound},
		{"plain", path, `command "plain": found, but not executable in PATH ` + path, fs.ErrPermission},
		{plain, path, `command "` + plain + `": found, but not executable`, fs.ErrPermission},
		{"./npx", path, `command "./npx": not found`, exec.ErrNotFound},
	} {
		_, err := LookPath(tc.command, tc.path, "")
		var notFound *NotFoundError
		if !errors.As(err, &notFound) || !errors.Is(err, tc.is) || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("LookPath(%q): %v, want %q", tc.command, err, tc.want)
			continue
		}
		if notFound.Command != tc.command || notFound.Path != "" && notFound.Path != tc.path {
			t.Errorf("LookPath(%q): %+v", tc.command, notFound)
		}
	}
}
