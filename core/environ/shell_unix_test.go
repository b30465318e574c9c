//go:build unix

package environ

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeShell writes a script that is used as $SHELL: it gets -lic or -lc and the
// question. $PIDS in it is a file into which it can write process IDs.
func fakeShell(t *testing.T, script string) (base []string, pids string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "shell")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	pids = filepath.Join(dir, "pids")
	return []string{"SHELL=" + path, "PATH=/usr/bin:/bin", "HOME=" + dir, "PIDS=" + pids, "TERM=xterm"}, pids
}

// gone fails unless the processes in the file have ended.
func gone(t *testing.T, pids string, want int) {
	t.Helper()
	text, err := os.ReadFile(pids)
	list := strings.Fields(string(text))
	if err != nil || len(list) != want {
		t.Fatalf("process IDs %q, %v; want %d", list, err, want)
	}
	for _, field := range list {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		alive := func() bool { return syscall.Kill(pid, 0) == nil && !zombie(pid) }
		for deadline := time.Now().Add(5 * time.Second); alive(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d is still there", pid)
			}
		}
	}
}

// zombie reports whether pid has ended and only waits to be collected by
// whoever became its parent, which is none of ours.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func TestC121_LoginShellPathIsFound(t *testing.T) {
	base, _ := fakeShell(t, `[ "$1" = -lic ] || exit 3
PATH=/home/u/.nvm/bin:$PATH; MULTI="a
b=c"; EMPTY=; export PATH MULTI EMPTY
eval "$2"`)
	env, err := LoginShell(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	got := New(env)
	for key, want := range map[string]string{"PATH": "/home/u/.nvm/bin:/usr/bin:/bin", "MULTI": "a\nb=c", "EMPTY": "", "TERM": "xterm"} {
		if v, ok := got.Lookup(key); !ok || v != want {
			t.Errorf("%s = %q, %v; want %q", key, v, ok, want)
		}
	}
	for _, key := range []string{"_", "SHLVL", "PWD", "MCP_FUNNEL_BEGIN", "MCP_FUNNEL_END", "MCP_FUNNEL_RESOLVING_ENVIRONMENT", "DISABLE_AUTO_UPDATE"} {
		if v, ok := got.Lookup(key); ok {
			t.Errorf("%s = %q is in the answer", key, v)
		}
	}
}

func TestLoginShellNoise(t *testing.T) {
	base, _ := fakeShell(t, `echo "PATH=/wrong"; echo "$2"; printf 'MCP_FUNNEL_BEGIN=x\0'; echo fortune >&2
printf '\033]0;title\007 no line break'
eval "$2"; echo bye; printf 'PATH=/also/wrong\0'`)
	env, err := LoginShell(t.Context(), base)
	if v, _ := New(env).Lookup("PATH"); err != nil || v != "/usr/bin:/bin" {
		t.Errorf("PATH = %q, %v", v, err)
	}
	for _, pair := range env {
		if strings.Contains(pair, "title") {
			t.Errorf("noise in the answer: %q", pair)
		}
	}
}

func TestLoginShellFallsBackToANonInteractiveOne(t *testing.T) {
	base, _ := fakeShell(t, `case $1 in -lic) exec true;; -lc) export FROM=lc; eval "$2";; esac`)
	env, err := LoginShell(t.Context(), base)
	if v, _ := New(env).Lookup("FROM"); err != nil || v != "lc" {
		t.Errorf("FROM = %q, %v", v, err)
	}
}

func TestLoginShellHanging(t *testing.T) {
	base, pids := fakeShell(t, `echo $$ >>$PIDS; sleep 1000 & echo $! >>$PIDS; trap "" TERM HUP; while :; do wait; sleep 1000; done`)
	env, err := loginShell(t.Context(), New(base), 600*time.Millisecond, 300*time.Millisecond)
	if !errors.Is(err, errNoTime) || env != nil || !strings.Contains(err.Error(), "shell") {
		t.Errorf("env %q, error %v", env, err)
	}
	gone(t, pids, 4)
}

func TestLoginShellHangingWhenInteractiveOnly(t *testing.T) {
	base, pids := fakeShell(t, `echo $$ >>$PIDS; [ $1 = -lic ] && sleep 1000; eval "$2"`)
	env, err := loginShell(t.Context(), New(base), 10*time.Second, 300*time.Millisecond)
	if _, ok := New(env).Lookup("PATH"); err != nil || !ok {
		t.Errorf("env %q, error %v", env, err)
	}
	gone(t, pids, 2)
}

func TestInvariant7_LoginShellLeavesNoProcess(t *testing.T) {
	// A background job that keeps the pipe open, and a shell that answers but
	// does not end.
	base, pids := fakeShell(t, `echo $$ >>$PIDS; sleep 1000 & echo $! >>$PIDS; eval "$2"; sleep 1000`)
	if _, err := LoginShell(t.Context(), base); err != nil {
		t.Error(err)
	}
	gone(t, pids, 2)
}

func TestInvariant7_LoginShellEndsJobsInGroupsOfTheirOwn(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc")
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs a shell that has job control without a terminal")
	}
	base, pids := fakeShell(t, `bash -c 'set -m; sleep 1000 & echo $! >>$PIDS'; eval "$2"`)
	if _, err := LoginShell(t.Context(), base); err != nil {
		t.Error(err)
	}
	gone(t, pids, 1)
}

func TestLoginShellCancelled(t *testing.T) {
	base, pids := fakeShell(t, `echo $$ >>$PIDS; kill -0 $PPID; sleep 1000`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if text, err := os.ReadFile(pids); err == nil && strings.HasSuffix(string(text), "\n") {
				cancel()
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	if _, err := LoginShell(ctx, base); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the cancellation", err)
	}
	gone(t, pids, 1)
}

func TestLoginShellFailing(t *testing.T) {
	for name, script := range map[string]string{
		"exits":         `echo hush-hush; exit 7`,
		"no path":       `env() { :; }; unset PATH; eval "$2"`,
		"no variables":  `/usr/bin/env -i /bin/sh -c "$(echo "$2" | sed 's/; .usr.bin.env -0;/; printf "x\\0y";/')"`,
		"endless noise": `exec yes hush-hush`,
		"never ends":    `/usr/bin/env -i "$(echo "$2" | sed 's/.*\(MCP_FUNNEL_BEGIN=[A-Z0-9]*\).*/\1/')" /usr/bin/env -0; echo hush-hush`,
	} {
		base, _ := fakeShell(t, script)
		env, err := LoginShell(t.Context(), base)
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: env %q, error %v", name, env, err)
		}
	}
	if _, err := LoginShell(t.Context(), []string{"SHELL=/no/such/shell"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing shell: %v", err)
	}
}

func TestLoginShellHasNoTerminalAndNothingToRead(t *testing.T) {
	base, _ := fakeShell(t, `read line && exit 1; (: </dev/tty) 2>/dev/null && exit 2
set -- "$1" "$2" $(ps -o pid=,sid=,pgid= -p $$ 2>/dev/null)
[ -z "$3" ] || { [ "$3" = "$4" ] && [ "$3" = "$5" ]; } || exit 3
eval "$2"`)
	if _, err := LoginShell(t.Context(), base); err != nil {
		t.Error(err)
	}
}

func TestShellOfPasswd(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/bash\nbroken:x:7\nu:x:1000:1000:U,,,:/home/u:/usr/bin/zsh\nn:x:1001:1::/:\n"
	for uid, want := range map[int]string{0: "/bin/bash", 1000: "/usr/bin/zsh", 1001: "", 7: "", 100: ""} {
		if got := passwdShell(strings.NewReader(passwd), uid); got != want {
			t.Errorf("uid %d: %q, want %q", uid, got, want)
		}
	}
	if got := shellOf(New([]string{"SHELL=/x/fish"})); got != "/x/fish" {
		t.Errorf("shell %q", got)
	}
	if got := shellOf(New([]string{"SHELL=fish"})); !filepath.IsAbs(got) {
		t.Errorf("shell %q", got)
	}
}

// FuzzListen holds that no output of a shell makes more than an error or pairs.
func FuzzListen(f *testing.F) {
	const mark = marker("M")
	f.Add([]byte("noise" + mark.begin() + "\x00A=1\x00PATH=/b\x00x\x00" + mark.end() + "\x00"))
	f.Add([]byte(mark.end() + "\x00" + mark.begin() + "\x00=\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := listen(strings.NewReader(string(data)), mark)
		if a.err != nil {
			return
		}
		env, err := clean(a.records, Env{})
		if _, ok := New(env).Lookup("PATH"); err == nil && !ok {
			t.Errorf("no PATH in %q", env)
		}
	})
}
