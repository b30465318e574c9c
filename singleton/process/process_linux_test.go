package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("it never happened: %s", what)
}

func TestZombieIsNotAlive(t *testing.T) {
	cmd := start(t)
	began, err := StartTime(cmd.Process.Pid)
	if err != nil || !Alive(cmd.Process.Pid, began) {
		t.Fatalf("the process is not alive: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// It is not waited for yet, so its entry stays.
	eventually(t, "the zombie counts as gone", func() bool { return !Alive(cmd.Process.Pid, began) })
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid))); err != nil {
		t.Fatalf("it was no zombie: %v", err)
	}
	if _, err := StartTime(cmd.Process.Pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("start time of a zombie: %v", err)
	}
}

func TestStopped(t *testing.T) {
	cmd := start(t)
	pid := cmd.Process.Pid
	if Stopped(pid) {
		t.Error("a running process counts as stopped")
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process is stopped", func() bool { return Stopped(pid) })
	if began, err := StartTime(pid); err != nil || !Alive(pid, began) {
		t.Errorf("a stopped process is not alive: %v", err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process goes on", func() bool { return !Stopped(pid) })
}

func TestTwoProcessesDiffer(t *testing.T) {
	a := start(t)
	time.Sleep(30 * time.Millisecond) // more than a clock tick
	b := start(t)
	startA, errA := StartTime(a.Process.Pid)
	startB, errB := StartTime(b.Process.Pid)
	if errA != nil || errB != nil || startA == startB {
		t.Errorf("start times %q and %q (%v, %v)", startA, startB, errA, errB)
	}
	if Alive(a.Process.Pid, startB) {
		t.Error("one process is taken for another")
	}
}

func TestExeOfDeletedProgram(t *testing.T) {
	text, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, text, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := startProgram(t, path)
	eventually(t, "the program runs", func() bool { exe, _ := Exe(cmd.Process.Pid); return exe == path })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if exe, err := Exe(cmd.Process.Pid); err != nil || exe != path {
		t.Errorf("after an upgrade the program is %q, %v, want %q", exe, err, path)
	}
}

const statTail = " 1 2 3 0 -1 4194304 5 0 0 0 6 7 0 0 20 0 9 0 424242 1000 99"

func TestParseStat(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       stat
		ok         bool
	}{
		{"plain", "17 (sleep) S" + statTail, stat{'S', "424242"}, true},
		{"name with spaces and parentheses", "17 (a) Z (b) T" + statTail, stat{'T', "424242"}, true},
		{"name with a newline", "17 (a\n) R) S" + statTail, stat{'S', "424242"}, true},
		{"empty", "", stat{}, false},
		{"no name", "17 sleep S" + statTail, stat{}, false},
		{"cut off", "17 (sleep) S 1 2 3", stat{}, false},
		{"no number", "17 (sleep) S" + strings.Replace(statTail, "424242", "x", 1), stat{}, false},
		{"long state", "17 (sleep) SS" + statTail, stat{}, false},
	} {
		got, err := parseStat([]byte(tc.text))
		if (err == nil) != tc.ok || got != tc.want {
			t.Errorf("%s: %+v, %v", tc.name, got, err)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("17 (a) Z (b) T" + statTail))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseStat(text)
		if err == nil && (s.state == 0 || s.startTicks == "") {
			t.Errorf("parsed %q as %+v", text, s)
		}
	})
}
