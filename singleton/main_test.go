package singleton

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// helperEnv holds a helperSpec in a process that is to be an instance and no test.
const helperEnv = "SINGLETON_TEST_HELPER"

func TestMain(m *testing.M) {
	if text := os.Getenv(helperEnv); text != "" {
		os.Exit(runHelper(text))
	}
	goleak.VerifyTestMain(m)
}

// helperSpec says how an instance in a process of its own behaves.
type helperSpec struct {
	Dir, Mode, Config string
	Replace, Desktop  bool
	ListenAfter       time.Duration // stay without a socket for so long
	AnswerAfter       time.Duration // be busy for so long at each hello
	NeverListen       bool          // hold the lock and nothing else
	Silent            bool          // listen and accept nothing
	Refuse            bool          // answer each hello with an error
	IgnoreTerm        bool
}

// runHelper waits for the end of stdin, claims, prints "claimed" or the error,
// and serves until it is asked to quit.
func runHelper(text string) int {
	var spec helperSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		fmt.Println(err)
		return 1
	}
	if spec.IgnoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	inst, err := Claim(context.Background(), ClaimOptions{
		Dir:     spec.Dir,
		Info:    Info{Version: "1.0", Config: spec.Config, Mode: spec.Mode},
		Replace: spec.Replace, Desktop: spec.Desktop,
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if !spec.NeverListen {
		time.Sleep(spec.ListenAfter)
		l, err := inst.Listen()
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("claimed")
		if !spec.Silent {
			serveHelper(l, spec)
			if err := inst.Close(); err != nil {
				fmt.Println(err)
				return 1
			}
			return 0
		}
	} else {
		fmt.Println("claimed")
	}
	for {
		time.Sleep(time.Hour)
	}
}

// serveHelper answers hellos until a control connection says quit.
func serveHelper(l net.Listener, spec helperSpec) {
	quit := make(chan struct{})
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				conn, h, err := Accept(context.Background(), nc)
				if err != nil {
					return
				}
				defer conn.Close()
				time.Sleep(spec.AnswerAfter)
				w := Welcome{Version: "1.0", Session: "s", Mode: spec.Mode}
				if spec.Refuse {
					w = Welcome{Error: "not you"}
				}
				if conn.Welcome(w) != nil || h.Role != RoleControl {
					return
				}
				line, _ := conn.R.ReadString('\n')
				if strings.Contains(line, `"method":"quit"`) {
					close(quit)
				}
			}()
		}
	}()
	<-quit
}

// helper is a running helper process.
type helper struct {
	*exec.Cmd
	out *bufio.Reader
	in  io.Closer
}

// newHelper makes a helper process; spec is a helperSpec in JSON.
func newHelper(spec string) *helper {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+spec, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return &helper{Cmd: cmd}
}

// begin starts the helper, which is killed at the end of the test.
func (h *helper) begin(t *testing.T) {
	t.Helper()
	out, err := h.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	h.out = bufio.NewReader(out)
	t.Cleanup(h.kill)
}

// startHelper starts an instance that is told to go on by helper.in.Close.
func startHelper(t *testing.T, spec helperSpec) *helper {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	h := newHelper(string(text))
	if h.in, err = h.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	h.begin(t)
	return h
}

// hold starts an instance and returns once it has the lock (and listens).
func hold(t *testing.T, spec helperSpec) *helper {
	t.Helper()
	h := startHelper(t, spec)
	h.in.Close()
	if said := h.said(t); said != "claimed" {
		t.Fatalf("the first instance says %q", said)
	}
	return h
}

// said returns the next line of the helper's output.
func (h *helper) said(t *testing.T) string {
	t.Helper()
	line, err := h.out.ReadString('\n')
	if err != nil {
		t.Fatalf("reading from the helper: %q, %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// kill ends the helper with SIGKILL and reaps it. It may be called twice.
func (h *helper) kill() {
	h.in.Close()
	_ = h.Process.Kill()
	_ = h.Wait()
}

// running reports whether the process, a child of ours, has not ended.
func (h *helper) running() bool {
	return h.Process.Signal(syscall.Signal(0)) == nil
}

// privateDir is a runtime folder of the test's own, short enough for sockets.
func privateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "singleton") //nolint:usetesting // the path of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// eventually polls until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("it never happened: %s", what)
}

// wantError checks that err is of type E and returns it as such.
func wantError[E error](t *testing.T, err error) E {
	t.Helper()
	var e E
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T), want a %T", err, err, e)
	}
	return e
}

// mustDo fails the test at once on an error.
func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
