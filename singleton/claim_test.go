//go:build linux

package singleton

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-funnel/singleton/process"
)

// quickly are the times of a claim for tests: as in Claim, but shorter.
func quickly() claimTimes {
	return claimTimes{
		answer: 400 * time.Millisecond,
		leave:  10 * time.Second,
		term:   400 * time.Millisecond,
		kill:   10 * time.Second,
	}
}

// claimQuickly is Claim with those times. The instance ends with the test.
func claimQuickly(t *testing.T, o ClaimOptions) (*Instance, error) {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := claim{ClaimOptions: o, claimTimes: quickly()}
	inst, err := c.run(t.Context())
	if err == nil {
		t.Cleanup(func() { inst.Close() })
	}
	return inst, err
}

func runningText(pid int) string { return fmt.Sprintf("already running (pid %d)", pid) }

func TestC124_StartAfterKill(t *testing.T) {
	dir := privateDir(t)
	first := hold(t, helperSpec{Dir: dir, Mode: ModeTray})
	stale, err := os.Lstat(filepath.Join(dir, socketName))
	mustDo(t, err)
	first.kill()
	if got := names(t, dir); got != "funnel.json funnel.lock funnel.pid funnel.sock" {
		t.Fatalf("killing it left: %s", got)
	}
	inst, err := Claim(t.Context(), ClaimOptions{Dir: dir})
	mustDo(t, err)
	defer inst.Close()
	l, err := inst.Listen()
	mustDo(t, err)
	serve(t, l, Welcome{}, nil)
	fresh, err := os.Lstat(filepath.Join(dir, socketName))
	mustDo(t, err)
	if os.SameFile(stale, fresh) && stale.ModTime().Equal(fresh.ModTime()) {
		t.Error("the stale socket is still there")
	}
	pid, err := os.ReadFile(filepath.Join(dir, pidName))
	if err != nil || string(pid) != strconv.Itoa(os.Getpid())+"\n" {
		t.Errorf("the pid file says %q, %v", pid, err)
	}
	conn, _, err := Dial(t.Context(), dir, Hello{Role: RoleControl})
	mustDo(t, err)
	conn.Close()
}

// bystander is a process that has nothing to do with us.
func bystander(t *testing.T) *helper {
	t.Helper()
	h := &helper{Cmd: exec.Command("sleep", "60"), in: io.NopCloser(nil)}
	mustDo(t, h.Start())
	t.Cleanup(h.kill)
	return h
}

func writeInfo(t *testing.T, dir string, info Info) {
	t.Helper()
	text, err := json.Marshal(info)
	mustDo(t, err)
	mustDo(t, os.WriteFile(filepath.Join(dir, infoName), text, 0o600))
	mustDo(t, os.WriteFile(filepath.Join(dir, pidName), []byte(strconv.Itoa(info.PID)+"\n"), 0o600))
}

func TestC125_PidOfAnUnrelatedProcess(t *testing.T) {
	dir := privateDir(t)
	other := bystander(t)
	writeInfo(t, dir, Info{PID: other.Process.Pid, StartTime: "another boot/1", Exe: os.Args[0]})
	inst, err := claimQuickly(t, ClaimOptions{Dir: dir, Replace: true})
	mustDo(t, err)
	if _, err := inst.Listen(); err != nil {
		t.Error(err)
	}
	if !other.running() {
		t.Error("the unrelated process was ended")
	}
}

// A silent holder that did not say who it is, beside files that name a process
// which is not the holder: nobody is signalled, whatever part of the proof lacks.
func TestC125_NobodyIsSignalledWithoutProof(t *testing.T) {
	other := bystander(t)
	pid := other.Process.Pid
	start, err := process.StartTime(pid)
	mustDo(t, err)
	exe, err := process.Exe(pid)
	mustDo(t, err)
	for name, info := range map[string]*Info{
		"no json":             nil,
		"another start time":  {PID: pid, StartTime: start + "0", Exe: exe},
		"no start time":       {PID: pid, Exe: exe},
		"another program":     {PID: pid, StartTime: start, Exe: os.Args[0]},
		"no program":          {PID: pid, StartTime: start},
		"a process long gone": {PID: 1 << 30, StartTime: start, Exe: exe},
		"a group":             {PID: -pid, StartTime: start, Exe: exe},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := privateDir(t)
			first := hold(t, helperSpec{Dir: dir, NeverListen: true})
			if info != nil {
				writeInfo(t, dir, *info)
			}
			_, err := claimQuickly(t, ClaimOptions{Dir: dir, Replace: true})
			wantError[*UnprovenError](t, err)
			if !other.running() || !first.running() {
				t.Error("a process was ended")
			}
		})
	}
}

// This very process is never what is to be ended.
func TestC125_NotOurselves(t *testing.T) {
	dir := privateDir(t)
	listening(t, dir) // and silent
	_, err := claimQuickly(t, ClaimOptions{Dir: dir})
	wantError[*UnprovenError](t, err)
}

func TestC127_SimultaneousStarts(t *testing.T) {
	const starts = 20
	dir := privateDir(t)
	for round, listenAfter := range []time.Duration{0, 0, 300 * time.Millisecond} {
		gate, open, err := os.Pipe()
		mustDo(t, err)
		all := make([]*helper, starts)
		for i := range all {
			all[i] = startGated(t, helperSpec{Dir: dir, Mode: ModeTray, ListenAfter: listenAfter}, gate)
		}
		gate.Close()
		open.Close() // all of them go on at once, over the socket of the round before
		var winner *helper
		said := make(map[string]int)
		for _, h := range all {
			line := h.said(t)
			if line == "claimed" {
				winner = h
			}
			said[line]++
		}
		if winner == nil || said["claimed"] != 1 || said[runningText(winner.Process.Pid)] != starts-1 {
			t.Fatalf("round %d: they say %v", round, said)
		}
		for _, h := range all {
			if h != winner {
				_ = h.Wait()
			}
		}
		conn, w, err := Dial(t.Context(), dir, Hello{Role: RoleBridge})
		if err != nil || w.Session != "s" {
			t.Fatalf("round %d: the one left does not answer: %v", round, err)
		}
		if pid := peerPID(conn); pid != winner.Process.Pid {
			t.Errorf("round %d: process %d answers, not %d", round, pid, winner.Process.Pid)
		}
		conn.Close()
		if info, err := ReadInfo(dir); err != nil || info.PID != winner.Process.Pid {
			t.Errorf("round %d: funnel.json is %+v, %v", round, info, err)
		}
		if got := names(t, dir); got != "funnel.json funnel.lock funnel.pid funnel.sock" {
			t.Errorf("round %d: left: %s", round, got)
		}
		winner.kill()
	}
}

// startGated starts a helper that goes on when gate is closed at its other end.
func startGated(t *testing.T, spec helperSpec, gate *os.File) *helper {
	t.Helper()
	text, err := json.Marshal(spec)
	mustDo(t, err)
	h := newHelper(string(text))
	h.Stdin = gate
	h.in = io.NopCloser(nil)
	h.begin(t)
	return h
}

func TestC132_SecondStart(t *testing.T) {
	dir := privateDir(t)
	first := hold(t, helperSpec{Dir: dir, Mode: ModeTray, Config: "/a/config.json"})
	for _, tc := range []struct {
		name, config string
		desktop      bool
		other        bool
	}{
		{"same config", "/a/./config.json", false, false},
		{"no config asked for", "", false, false},
		{"tray beside a tray", "/a/config.json", true, false},
		{"other config", "/b/config.json", false, true},
	} {
		_, err := Claim(t.Context(), ClaimOptions{Dir: dir, Info: Info{Config: tc.config}, Desktop: tc.desktop})
		running := wantError[*RunningError](t, err)
		if running.OtherConfig != tc.other || running.Info.PID != first.Process.Pid || running.Info.Mode != ModeTray {
			t.Errorf("%s: %+v", tc.name, running)
		}
		text := runningText(first.Process.Pid)
		if tc.other && !strings.HasPrefix(err.Error(), text+" with another config, /a/config.json: ") || !tc.other && err.Error() != text {
			t.Errorf("%s: %q", tc.name, err)
		}
	}
	if !first.running() {
		t.Error("the first was ended")
	}
}

// The first is busy for longer than a second start would wait for one that is
// merely slow to take the connection.
func TestC132_SecondStartWhileTheFirstIsBusy(t *testing.T) {
	dir := privateDir(t)
	first := hold(t, helperSpec{Dir: dir, Mode: ModeTray, AnswerAfter: 1500 * time.Millisecond})
	_, err := Claim(t.Context(), ClaimOptions{Dir: dir})
	if running := wantError[*RunningError](t, err); running.Info.PID != first.Process.Pid {
		t.Errorf("%+v", running)
	}
}

func TestC132_TakeOver(t *testing.T) {
	for _, tc := range []struct {
		name             string
		mode             string
		replace, desktop bool
		taken            bool
	}{
		{"replace a tray", ModeTray, true, false, true},
		{"tray over headless", ModeHeadless, false, true, true},
		{"headless over headless", ModeHeadless, false, false, false},
		{"tray over tray", ModeTray, false, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := privateDir(t)
			first := hold(t, helperSpec{Dir: dir, Mode: tc.mode})
			_, err := claimQuickly(t, ClaimOptions{Dir: dir, Replace: tc.replace, Desktop: tc.desktop})
			if !tc.taken {
				wantError[*RunningError](t, err)
				return
			}
			mustDo(t, err)
			if err := first.Wait(); err != nil {
				t.Errorf("the first did not end by itself: %v", err)
			}
			if got := names(t, dir); got != lockName {
				t.Errorf("left: %s", got)
			}
		})
	}
}

func TestC132_StoppedFirst(t *testing.T) {
	dir := privateDir(t)
	first := hold(t, helperSpec{Dir: dir, Mode: ModeTray})
	pid := first.Process.Pid
	mustDo(t, first.Process.Signal(syscall.SIGSTOP))
	eventually(t, "the first is stopped", func() bool { return process.Stopped(pid) })

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // less than it waits for an answer
	defer cancel()
	_, err := Claim(ctx, ClaimOptions{Dir: dir, Desktop: true})
	if stopped := wantError[*StoppedError](t, err); stopped.PID != pid {
		t.Errorf("%+v", stopped)
	}
	if !process.Stopped(pid) {
		t.Error("the first was woken")
	}
	_, err = Claim(ctx, ClaimOptions{Dir: dir, Replace: true})
	mustDo(t, err)
	if state := waitState(t, first); !state.Signaled() || state.Signal() != syscall.SIGTERM {
		t.Errorf("the first ended with %v", state)
	}
}

// waitState reaps h and returns how it ended.
func waitState(t *testing.T, h *helper) syscall.WaitStatus {
	t.Helper()
	_ = h.Wait()
	state, ok := h.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		t.Fatal("no wait status")
	}
	return state
}

func TestC132_StaleFirstIsEnded(t *testing.T) {
	for _, tc := range []struct {
		name string
		spec helperSpec
		with syscall.Signal
	}{
		{"by SIGTERM", helperSpec{Silent: true}, syscall.SIGTERM},
		{"by SIGKILL", helperSpec{Silent: true, IgnoreTerm: true}, syscall.SIGKILL},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.spec.Dir = privateDir(t)
			first := hold(t, tc.spec)
			var log bytes.Buffer
			began := time.Now()
			inst, err := claimQuickly(t, ClaimOptions{Dir: tc.spec.Dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
			mustDo(t, err)
			if patience := quickly().answer; time.Since(began) < patience {
				t.Error("it got no time to answer")
			}
			if state := waitState(t, first); !state.Signaled() || state.Signal() != tc.with {
				t.Errorf("the first ended with %v", state)
			}
			if want := "pid=" + strconv.Itoa(first.Process.Pid); !strings.Contains(log.String(), want) {
				t.Errorf("%q is not in the log %q", want, &log)
			}
			if _, err := inst.Listen(); err != nil {
				t.Error(err)
			}
		})
	}
}

// One that answers but cannot be asked to leave is ended only with Replace.
func TestC132_FirstThatRefuses(t *testing.T) {
	dir := privateDir(t)
	first := hold(t, helperSpec{Dir: dir, Mode: ModeHeadless, Refuse: true})
	_, err := claimQuickly(t, ClaimOptions{Dir: dir, Desktop: true})
	wantError[*RunningError](t, err)
	if !first.running() {
		t.Fatal("the first was ended")
	}
	_, err = claimQuickly(t, ClaimOptions{Dir: dir, Replace: true})
	mustDo(t, err)
	if state := waitState(t, first); !state.Signaled() || state.Signal() != syscall.SIGTERM {
		t.Errorf("the first ended with %v", state)
	}
}

// A first that dies while it is waited for leaves the place to the second.
func TestC132_FirstDiesMeanwhile(t *testing.T) {
	dir := privateDir(t)
	first := hold(t, helperSpec{Dir: dir, Silent: true})
	go func() {
		time.Sleep(100 * time.Millisecond)
		_ = first.Process.Kill()
	}()
	inst, err := Claim(t.Context(), ClaimOptions{Dir: dir})
	mustDo(t, err)
	mustDo(t, inst.Close())
}

func TestC132_ClaimEndsWithItsContext(t *testing.T) {
	dir := privateDir(t)
	first := hold(t, helperSpec{Dir: dir, Silent: true})
	stop := errors.New("stop")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, stop)
	defer cancel()
	if _, err := Claim(ctx, ClaimOptions{Dir: dir}); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	if !first.running() {
		t.Error("the first was ended")
	}
}
