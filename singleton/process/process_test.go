package process

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// helperEnv makes the test binary a process that just lives.
const helperEnv = "PROCESS_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// start starts a process that lives for a minute; it is killed with the test.
func start(t *testing.T) *exec.Cmd { t.Helper(); return startProgram(t, os.Args[0]) }

// startProgram does so with a copy of the test binary at path.
func startProgram(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestOfThisProcess(t *testing.T) {
	pid := os.Getpid()
	first, err := StartTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	again, err := StartTime(pid)
	if err != nil || again != first || first == "" {
		t.Errorf("start time %q, then %q, %v", first, again, err)
	}
	if !Alive(pid, first) {
		t.Error("this process is not alive")
	}
	if Alive(pid, first+"0") || Alive(pid, "") {
		t.Error("another start time, or none, is taken for this process")
	}
	if Stopped(pid) {
		t.Error("this process is stopped")
	}
	exe, err := Exe(pid)
	if err != nil {
		t.Fatal(err)
	}
	want, err := filepath.EvalSymlinks(os.Args[0])
	if err != nil || exe != want {
		t.Errorf("program %q, want %q (%v)", exe, want, err)
	}
}

func TestNoSuchProcess(t *testing.T) {
	for _, pid := range []int{0, -1, -os.Getpid(), 1 << 30} {
		if _, err := StartTime(pid); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("start time of %d: %v", pid, err)
		}
		if _, err := Exe(pid); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("program of %d: %v", pid, err)
		}
		if Alive(pid, "x") || Stopped(pid) {
			t.Errorf("process %d is alive or stopped", pid)
		}
	}
}
