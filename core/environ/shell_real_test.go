//go:build unix

package environ

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// realShell is a shell as people have it.
type realShell struct {
	name string
	// interactive is the start-up file that only interactive ones read, always the
	// one that every login shell reads. Either may be "".
	interactive, always string
	// files are other start-up files that the shell has by default.
	files map[string]string
	// setPath puts /from/rc into PATH; guard begins what only interactive shells do.
	setPath string
	// hang waits for ever, exec replaces the shell by another one.
	hang, exec string
}

func realShells() []realShell {
	const posixPath, posixHang = "PATH=/from/rc:$PATH; export PATH\n", "while :; do sleep 1000; done\n"
	// What Debian gives to new users: .profile reads .bashrc, which stops there
	// unless it is interactive.
	debian := map[string]string{".profile": `[ -f "$HOME/.bashrc" ] && . "$HOME/.bashrc"` + "\n"}
	return []realShell{
		{name: "bash", interactive: ".bashrc", always: ".bash_login", files: debian, setPath: posixPath, hang: posixHang, exec: "exec sh\n"},
		{name: "zsh", interactive: ".zshrc", always: ".zprofile", setPath: posixPath, hang: posixHang, exec: "exec bash\n"},
		{
			name: "fish", always: ".config/fish/config.fish", setPath: "set -x PATH /from/rc $PATH\n",
			hang: "while true; sleep 1000; end\n", exec: "exec sh\n",
		},
		{name: "dash", always: ".profile", setPath: posixPath, hang: posixHang, exec: "exec bash\n"},
		{name: "ksh", always: ".profile", setPath: posixPath, hang: posixHang, exec: "exec bash\n"},
	}
}

// eachShell runs test on every shell that is here, with its path.
func eachShell(t *testing.T, test func(t *testing.T, s realShell, path string)) {
	for _, s := range realShells() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel() // they mostly wait
			path, err := exec.LookPath(s.name)
			if err != nil {
				t.Skipf("%s is not installed", s.name)
			}
			test(t, s, path)
		})
	}
}

// home is a new home with the shell's own files and one more. In bash a guard goes
// before it: its interactive file is read by login shells as well, by way of
// .profile.
func (s realShell) home(t *testing.T, file, text string) []string {
	t.Helper()
	files := map[string]string{file: text}
	if s.name == "bash" && file == s.interactive {
		files[file] = "case $- in *i*) ;; *) return;; esac\n" + text
	}
	for name, text := range s.files {
		if file != s.always {
			files[name] = text
		}
	}
	return []string{"HOME=" + tree(t, files), "PATH=/usr/local/bin:/usr/bin:/bin"}
}

// asked returns the PATH that the shell at path answers, within enough time for a
// busy machine, and, of that, interactive for the first attempt.
func asked(t *testing.T, path string, base []string, interactive time.Duration) ([]string, error) {
	t.Helper()
	env, err := loginShell(t.Context(), New(append(base, "SHELL="+path)), 30*time.Second, interactive)
	dirs, _ := New(env).Lookup("PATH")
	return filepath.SplitList(dirs), err
}

// wantPath fails unless the answer came, with or without what the start-up file adds.
func wantPath(t *testing.T, got []string, err error, fromFile bool) {
	t.Helper()
	if err != nil || !slices.Contains(got, "/usr/bin") || slices.Contains(got, "/from/rc") != fromFile {
		t.Errorf("PATH %q, %v; want /from/rc in it: %v", got, err, fromFile)
	}
}

// startFiles are those of the shell that are read at all.
func (s realShell) startFiles() []string {
	return slices.DeleteFunc([]string{s.interactive, s.always}, func(file string) bool { return file == "" })
}

func TestC121_RealShellThatIsNoisy(t *testing.T) {
	eachShell(t, func(t *testing.T, s realShell, path string) {
		for _, file := range s.startFiles() {
			noise := "echo PATH=/wrong; echo noise >&2\n" + s.setPath
			if s.name != "fish" {
				noise += "env() { echo wrong; }; alias printf=false\n"
			} else {
				noise += "function env; echo wrong; end\n"
			}
			got, err := asked(t, path, s.home(t, file, noise), 20*time.Second)
			wantPath(t, got, err, true)
			if slices.Contains(got, "/wrong") {
				t.Errorf("%s: noise in PATH %q", file, got)
			}
		}
	})
}

func TestC121_RealShellThatReadsInputAndHasBrokenFiles(t *testing.T) {
	eachShell(t, func(t *testing.T, s realShell, path string) {
		for _, file := range s.startFiles() {
			got, err := asked(t, path, s.home(t, file, "read answer\nno-such-program\ncd /no/such/folder\n"+s.setPath), 20*time.Second)
			wantPath(t, got, err, true)
		}
	})
}

func TestC121_RealShellWhoseFileStartsAnotherShell(t *testing.T) {
	eachShell(t, func(t *testing.T, s realShell, path string) {
		if s.interactive != "" {
			// The plain login shell does not read that file.
			got, err := asked(t, path, s.home(t, s.interactive, s.setPath+s.exec), 20*time.Second)
			wantPath(t, got, err, false)
		}
		// Nobody is left who could answer: that is said, and at once.
		if got, err := asked(t, path, s.home(t, s.always, s.exec), 20*time.Second); !errors.Is(err, errNoAnswer) {
			t.Errorf("PATH %q, %v; want %v", got, err, errNoAnswer)
		}
	})
}

func TestC121_RealShellWhoseFileEndsIt(t *testing.T) {
	eachShell(t, func(t *testing.T, s realShell, path string) {
		got, err := asked(t, path, s.home(t, s.always, "exit 1\n"), 20*time.Second)
		if s.name == "fish" { // leaves the file only
			wantPath(t, got, err, false)
		} else if !errors.Is(err, errNoAnswer) {
			t.Errorf("PATH %q, %v; want %v", got, err, errNoAnswer)
		}
	})
}

func TestC121_RealShellThatHangs(t *testing.T) {
	eachShell(t, func(t *testing.T, s realShell, path string) {
		if s.interactive != "" {
			got, err := asked(t, path, s.home(t, s.interactive, s.hang), 500*time.Millisecond)
			wantPath(t, got, err, false)
		}
		base := New(append(s.home(t, s.always, s.hang), "SHELL="+path))
		_, err := loginShell(t.Context(), base, 800*time.Millisecond, 400*time.Millisecond)
		if !errors.Is(err, errNoTime) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v; want %v", err, errNoTime)
		}
	})
}

func TestC121_NoShell(t *testing.T) {
	for _, shell := range []string{"/usr/sbin/nologin", "/bin/false", "/no/such/shell"} {
		env, err := LoginShell(t.Context(), []string{"SHELL=" + shell, "PATH=/usr/bin", "HOME=" + t.TempDir()})
		if err == nil || env != nil || !strings.Contains(err.Error(), shell) {
			t.Errorf("%s: %q, %v; want an error that names it", shell, env, err)
		}
	}
}
