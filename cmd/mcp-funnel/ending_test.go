//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// goneAfter waits until a process is gone and returns how long that took.
func (s *sandbox) goneAfter(pid int) time.Duration {
	s.t.Helper()
	begun := time.Now()
	for alive(pid) {
		if time.Since(begun) > patience {
			s.t.Fatalf("process %d stays", pid)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(begun)
}

// rawBridge is a bridge whose pipes the test has in its hands.
type rawBridge struct {
	pid    int
	stdin  io.WriteCloser
	stdout io.ReadCloser
}

// rawBridge starts a bridge and lets it have a call running.
func (s *sandbox) rawBridge(key string) *rawBridge {
	s.t.Helper()
	cmd := s.command("bridge")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = cmd.Process.Wait()
	}()
	s.t.Cleanup(func() {
		_, _ = stdin.Close(), stdout.Close()
		_ = cmd.Process.Kill() // it has gone, or the test has failed
		<-done
	})
	_, err = fmt.Fprintf(stdin, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"raw","version":"1"}}}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"w__run","arguments":{"key":%q,"millis":600000}}}
`, key)
	if err != nil {
		s.t.Fatal(err)
	}
	s.eventuallyRan(key)
	return &rawBridge{pid: cmd.Process.Pid, stdin: stdin, stdout: stdout}
}

// However a session ends: the bridge is gone, its running call is cancelled at the
// server, and the app forgets it. Also when the app is frozen and takes nothing.
func TestEndsOfABridge(t *testing.T) {
	ends := map[string]func(*rawBridge) error{
		"EOF":     func(b *rawBridge) error { return b.stdin.Close() },
		"SIGINT":  func(b *rawBridge) error { return syscall.Kill(b.pid, syscall.SIGINT) },
		"SIGTERM": func(b *rawBridge) error { return syscall.Kill(b.pid, syscall.SIGTERM) },
		"SIGHUP":  func(b *rawBridge) error { return syscall.Kill(b.pid, syscall.SIGHUP) },
		"closed stdout": func(b *rawBridge) error {
			if err := b.stdout.Close(); err != nil {
				return err
			}
			_, err := io.WriteString(b.stdin, `{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n")
			return err
		},
	}
	s := newWitnessed(t)
	app := s.start("serve")
	n := 0
	for name, end := range ends {
		for _, frozen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, frozen %v", name, frozen), func(t *testing.T) {
				n++
				key := fmt.Sprintf("call %d", n)
				b := s.rawBridge(key)
				if frozen {
					s.signal(app.cmd.Process.Pid, syscall.SIGSTOP)
					// More than the socket takes.
					for range 3 {
						_, err := fmt.Fprintf(b.stdin, `{"jsonrpc":"2.0","method":"notifications/x","params":{"x":"%s"}}`+"\n", strings.Repeat("x", 1<<20))
						if err != nil {
							t.Fatal(err)
						}
					}
				}
				begun := time.Now()
				if err := end(b); err != nil {
					t.Error(err)
				}
				s.goneAfter(b.pid)
				t.Logf("gone after %s", time.Since(begun))
				if took := time.Since(begun); took > 2*time.Second {
					t.Errorf("it took %s", took)
				}
				if frozen {
					s.signal(app.cmd.Process.Pid, syscall.SIGCONT)
				}
				s.eventuallyRan("cancelled " + key)
				s.attached(0)
			})
		}
	}
}

// A client that only closes the bridge's stdout is gone as well, even if nothing is
// to be written.
func TestBridgeNoticesThatNobodyReads(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newWitnessed(t)
	s.start("serve")
	b := s.rawBridge("call")
	if err := b.stdout.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("gone after %s", s.goneAfter(b.pid))
	s.eventuallyRan("cancelled call")
}

// The client dies while a sibling holds its pipe, and somebody in between adopts
// orphans, as service managers and containers do.
func TestBridgeEndsWhenItsParentDiesUnderASubreaper(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Skip(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	s := newWitnessed(t)
	s.start("serve")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = write.Close() }()
	client := s.command()
	client.Path, client.Args = "/bin/sh", []string{"sh", "-c", `"$0" bridge <&3 >/dev/null & echo $!; wait`, s.program}
	client.ExtraFiles = []*os.File{read}
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	_ = read.Close()
	line := make([]byte, 20)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	bridge, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(write, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"w__run","arguments":{"key":"call","millis":600000}}}`+"\n")
	if err != nil {
		t.Fatal(err)
	}
	s.eventuallyRan("call")
	_ = client.Process.Kill()
	_ = client.Wait()
	t.Logf("gone after %s", s.goneAfter(bridge))
	var status unix.WaitStatus
	if _, err := unix.Wait4(bridge, &status, 0, nil); err != nil {
		t.Errorf("it was not ours to wait for: %v", err)
	}
	s.eventuallyRan("cancelled call")
}
