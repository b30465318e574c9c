//go:build unix

package environ

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// shellTime is how long all attempts may take together, interactiveTime
	// how much of it the first one has. Interactive files (nvm) can be slow.
	shellTime       = 5 * time.Second
	interactiveTime = 3500 * time.Millisecond
)

// LoginShell asks the user's login shell for the environment it would give to a
// command typed at its prompt. The shell is base's SHELL, else that of the
// passwd entry, else /bin/sh. It runs as an interactive login shell, because
// that is where people set their PATH, without a terminal and with nothing to
// read; if that brings nothing, as a plain login shell. base is its starting
// environment, plus MCP_FUNNEL_RESOLVING_ENVIRONMENT=1, by which start-up files
// can tell.
//
// It takes 5 s at most; then, and whenever it returns, the shell and all of its
// session are ended. (A daemon that made a session of its own is left.) The
// error holds nothing of what the shell said.
func LoginShell(ctx context.Context, base []string) (env []string, err error) {
	return loginShell(ctx, New(base), shellTime, interactiveTime)
}

func loginShell(ctx context.Context, base Env, total, interactive time.Duration) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, total)
	defer cancel()
	shell := shellOf(base)
	first, cancelFirst := context.WithTimeout(ctx, interactive)
	defer cancelFirst()
	env, err := ask(first, shell, "-lic", base)
	if err != nil && ctx.Err() == nil {
		env, err = ask(ctx, shell, "-lc", base)
	}
	if err != nil {
		return nil, fmt.Errorf("asking the login shell %s for its environment: %w", shell, err)
	}
	return env, nil
}

// shellOf finds the user's shell.
func shellOf(base Env) string {
	if shell, _ := base.Lookup("SHELL"); filepath.IsAbs(shell) {
		return shell
	}
	if passwd, err := os.Open("/etc/passwd"); err == nil {
		defer func() { _ = passwd.Close() }()
		if shell := passwdShell(passwd, os.Getuid()); shell != "" {
			return shell
		}
	}
	return "/bin/sh"
}

// passwdShell reads the shell of uid from a passwd(5) file.
func passwdShell(passwd io.Reader, uid int) string {
	lines := bufio.NewScanner(passwd)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) == 7 && fields[2] == strconv.Itoa(uid) && filepath.IsAbs(fields[6]) {
			return fields[6]
		}
	}
	return ""
}

// question is what the shell is asked to run: external commands by their paths
// only, so that no alias, function or dialect of the shell matters. Each prints
// variables, every one ended by NUL; the first and last print a marker each.
func question(mark marker) string {
	const env = "/usr/bin/env"
	return fmt.Sprintf("%[1]s -i %[2]s %[1]s -0; %[1]s -0; %[1]s -i %[3]s %[1]s -0", env, mark.begin(), mark.end())
}

// marker is a random text that nothing else prints.
type marker string

func (m marker) begin() string { return "MCP_FUNNEL_BEGIN=" + string(m) }
func (m marker) end() string   { return "MCP_FUNNEL_END=" + string(m) }

// ask runs the shell once and returns its environment. When it returns, the
// shell and its session are gone.
func ask(ctx context.Context, shell, flags string, base Env) ([]string, error) {
	mark := marker(rand.Text())
	// Not CommandContext: the whole session has to be ended, and before Wait,
	// while the process ID cannot belong to anybody else.
	cmd := exec.Command(shell, flags, question(mark)) //nolint:noctx // ended below
	cmd.Env = base.With(probeVariables()).Environ()
	cmd.Dir = homeOf(base)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting it: %w", err)
	}
	heard := make(chan answer, 1)
	go func() { heard <- listen(out, mark) }()
	var got answer
	select {
	case got = <-heard:
		endSession(cmd.Process.Pid)
	case <-ctx.Done():
		endSession(cmd.Process.Pid)
		// Whoever still holds the other end must not hold us up.
		_ = out.Close()
		<-heard
		got = answer{err: errNoTime}
		if errors.Is(ctx.Err(), context.Canceled) {
			got.err = ctx.Err()
		}
	}
	// How the shell ended says nothing once it was killed or has answered.
	_ = cmd.Wait()
	if got.err != nil {
		return nil, got.err
	}
	return clean(got.records, base)
}

// probeVariables keep start-up files from doing what only helps a person.
func probeVariables() []string {
	return []string{"TERM=dumb", "DISABLE_AUTO_UPDATE=true", "MCP_FUNNEL_RESOLVING_ENVIRONMENT=1"}
}

// homeOf is a folder that exists for the shell to start in.
func homeOf(base Env) string {
	home, _ := base.Lookup("HOME")
	if info, err := os.Stat(home); err != nil || !info.IsDir() || !filepath.IsAbs(home) {
		return "/"
	}
	return home
}

// endSession kills everything that runs in the session of pid, which is its
// leader and has not been waited for.
func endSession(pid int) {
	// An error means that nobody is left in the group.
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	endMembers(pid)
}
