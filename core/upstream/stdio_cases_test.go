//go:build linux

package upstream

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-funnel/core/config"
	"mcp-funnel/core/status"
)

// call is a client's tools/call with the given id, as it is on the wire.
func call(id, tool string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `"}}`
}

// answers calls the tool x and fails unless the same process answers it.
func (r *rig) answers(pid int) {
	r.t.Helper()
	a := newInbox()
	r.upstream.Forward(request(r.t, call("99", "x"), a))
	if reply := a.wait(r.t); !strings.HasPrefix(reply, `{"jsonrpc":"2.0","id":99,"result":{"content":[{"type":"text","text":"ok"}]`) {
		r.t.Errorf("reply %s", reply)
	}
	if now := r.connected(); now.PID != pid || now.Restarts != 0 {
		r.t.Errorf("process %d became %d, %d restarts", pid, now.PID, now.Restarts)
	}
}

// A server that writes other things to stdout, before and between its messages.
func TestC37_NoiseOnStdoutIsSkippedAndLoggedOnce(t *testing.T) {
	r := newRig(t, "noise")
	r.answers(r.connected().PID)
	r.stop()
	log := r.log.String()
	// It talks at its start and before each of its answers: to initialize, initialized,
	// tools/list and the call.
	for n := range 5 {
		for _, line := range []string{"npm warn exec %d", "🚀 started %d", "red %d", "long %d"} {
			want := fmt.Sprintf("skipped on stdout: "+line, n)
			if n == 4 && line != "npm warn exec %d" && !strings.Contains(log, want) {
				continue // only the first twenty lines are logged
			}
			if got := strings.Count(log, want); got != 1 {
				t.Errorf("%q is logged %d times", want, got)
			}
		}
	}
	if strings.Count(log, "skipped on stdout") != maxNoise {
		t.Errorf("%d lines are logged as skipped, want %d, and no blank one", strings.Count(log, "skipped on stdout"), maxNoise)
	}
	for line := range strings.Lines(log) {
		if _, text, skipped := strings.Cut(strings.TrimSpace(line), "skipped on stdout: "); skipped && (len(text) > 200+len("…") || strings.Contains(text, "\x1b")) {
			t.Errorf("%d bytes of %q", len(text), text)
		}
	}
	if warning := r.appLog.String(); strings.Count(warning, "writes to stdout what is no message") != 1 || !strings.Contains(warning, "server=s") {
		t.Errorf("the app's log: %s", warning)
	}
}

// Broken JSON before every message: the next line is in step again.
func TestC38_BrokenLineOfAServerIsSkipped(t *testing.T) {
	r := newRig(t, "bad-json")
	r.answers(r.connected().PID)
	if log := r.log.String(); !strings.Contains(log, "skipped on stdout: {bad json") {
		t.Errorf("log: %s", log)
	}
}

// 256 KiB on stderr before each answer, four times what a pipe holds.
func TestC41_StderrFloodDoesNotBlockTheServer(t *testing.T) {
	r := newRig(t, "stderr-flood")
	pid := r.connected().PID
	const calls = 5
	for range calls {
		r.answers(pid)
	}
	r.stop()
	if got := strings.Count(r.log.String(), "e"); got < calls*256<<10 {
		t.Errorf("%d bytes of stderr are in the log", got)
	}
}

// A call that takes longer than callTimeoutMs: its caller gets an error, the server is
// told and lives on, and what it answers in the end is dropped.
func TestC43_CallTimeoutOfAProcess(t *testing.T) {
	const limit = 300 * time.Millisecond
	r := newRig(t, "late", func(s *config.Server) { s.CallTimeout = limit })
	pid := r.connected().PID
	a := newInbox()
	begun := time.Now()
	r.upstream.Forward(request(t, call("1", "hang"), a))
	reply := a.wait(t)
	if took := time.Since(begun); took < limit || took > limit+time.Second {
		t.Errorf("the error came after %s, want %s to 1 s more", took, limit)
	}
	if !strings.HasPrefix(reply, `{"jsonrpc":"2.0","id":1,"error"`) || !strings.Contains(reply, `server \"s\" did not answer \"x\" within 300ms`) {
		t.Errorf("reply %s", reply)
	}
	id := strings.Fields(r.noted("call "))[1]
	if got := r.noted("cancelled"); got != "cancelled "+id {
		t.Errorf("the server noted %q, want that %s is cancelled", got, id)
	}
	// It answers the cancelled call now, and then the next one.
	r.answers(pid)
	if len(a.replies) != 0 {
		t.Errorf("a second reply: %s", <-a.replies)
	}
}

// Fifty calls at a time, by clients that use the same ids.
func TestC44_ParallelCallsAreAnsweredInAnyOrder(t *testing.T) {
	r := newRig(t, "crowd")
	r.connected()
	padding := strings.Repeat("p", 4<<10) // several lines together are more than a pipe takes
	var callers sync.WaitGroup
	for n := range crowd.size {
		callers.Go(func() {
			a := newInbox()
			r.upstream.Forward(request(t, fmt.Sprintf(
				`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x","arguments":{"n":%d,"p":%q}}}`, n%7, n, padding), a))
			want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"n":%d}}`, n%7, n)
			if got := a.wait(t); got != want {
				t.Errorf("call %d: got %s, want %s", n, got, want)
			}
		})
	}
	callers.Wait()
	notes, err := os.ReadFile(r.notes)
	if err != nil || strings.Contains(string(notes), "BROKEN LINE") || strings.Count(string(notes), "call ") != crowd.size {
		t.Errorf("%v, the server noted: %s", err, notes)
	}
}

// A server that sends ids back as strings, to clients that use both kinds.
func TestC45_ReplyWithStringIDIsCorrelated(t *testing.T) {
	r := newRig(t, "string-id")
	r.connected()
	number, text := newInbox(), newInbox()
	r.upstream.Forward(request(t, call(`5`, "x"), number))
	r.upstream.Forward(request(t, call(`"5"`, "x"), text))
	if reply := number.wait(t); !strings.HasPrefix(reply, `{"jsonrpc":"2.0","id":5,"result"`) {
		t.Errorf("reply %s", reply)
	}
	if reply := text.wait(t); !strings.HasPrefix(reply, `{"jsonrpc":"2.0","id":"5","result"`) {
		t.Errorf("reply %s", reply)
	}
}

// A server that ends before it said anything: what waits for it is the handshake.
func TestC72_ServerThatEndsAtOnceFailsAtOnce(t *testing.T) {
	r := newRig(t, "ok", func(s *config.Server) {
		s.Command, s.Args = "/bin/sh", []string{"-c", "echo boom >&2; exit 3"}
		s.Reconnect.InitialDelay, s.Reconnect.MaxDelay = time.Hour, time.Hour
	})
	s := r.until("failed", func(s status.Server) bool { return s.LastError != "" })
	if !strings.Contains(s.LastError, "exit code 3") || !strings.Contains(s.LastError, "boom") {
		t.Errorf("last error %q", s.LastError)
	}
	if took := s.Since.Sub(r.begun); s.State != status.Reconnecting || took > time.Second {
		t.Errorf("%s after %s", s.State, took)
	}
}

// A server that is lost with three calls running, by closing its stdout or by its end.
func TestC72_CallsOfALostServerFailAtOnce(t *testing.T) {
	for mode, reason := range map[string]string{
		"close-stdout": "closed its output and goes on running", "die-on-call": "exit code 7",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r, other := newRig(t, mode), newRig(t, "ok")
			first, bystander := r.connected(), other.connected().PID
			a := newInbox()
			begun := time.Now()
			for _, id := range []string{"1", "2", "3"} {
				r.upstream.Forward(request(t, call(id, "x"), a))
			}
			for range 3 {
				if reply := a.wait(t); !strings.Contains(reply, `"error"`) || !strings.Contains(reply, reason) {
					t.Errorf("reply %s", reply)
				}
			}
			if took := time.Since(begun); took > time.Second {
				t.Errorf("the errors took %s", took)
			}
			again := r.until("connected again", func(s status.Server) bool { return s.State == status.Connected && s.PID != first.PID })
			if !processGone(first.PID) {
				t.Errorf("process %d lives beside the new one %d", first.PID, again.PID)
			}
			other.answers(bystander)
		})
	}
}
