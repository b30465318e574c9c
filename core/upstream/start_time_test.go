package upstream

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-funnel/core/config"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

// after answers initialize late, everything else at once.
func after(late time.Duration) func(*fakeTransport, jsonrpc.Message) []byte {
	return func(f *fakeTransport, m jsonrpc.Message) []byte {
		if m.MethodName() != "initialize" {
			return healthy(f, m)
		}
		reply := healthy(f, m)
		time.AfterFunc(late, func() { f.reply(reply) })
		return nil
	}
}

// A server that needs 90 s before it answers initialize, since its package is being
// downloaded, gets them, and everybody can see for how long it has been starting.
func TestC69_SlowStartIsNotCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRigOf(t, func(s *config.Server) { s.StartupTimeout = 120 * time.Second }, after(90*time.Second))
		for _, at := range []struct {
			time  time.Duration
			words string
		}{
			{time.Second, "connecting"}, {3 * time.Second, "starting (3 s)"}, {75 * time.Second, "starting (75 s)"},
			{89 * time.Second, "starting (89 s)"}, {91 * time.Second, "connected"},
		} {
			time.Sleep(at.time - time.Since(r.opened[0].began))
			synctest.Wait()
			if got := r.server().Words(time.Now()); got != at.words {
				t.Errorf("after %s it is %q, want %q", at.time, got, at.words)
			}
		}
		if s := r.server(); len(r.opened) != 1 || s.Restarts != 0 || r.opened[0].isClosed() {
			t.Errorf("%d connections, %+v", len(r.opened), s)
		}
	})
}

// Each server has a limit of its own, and it holds.
func TestC69_StartupTimeoutOfTheEntryHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRigOf(t, func(s *config.Server) { s.StartupTimeout = 30 * time.Second }, after(90*time.Second))
		time.Sleep(30*time.Second - time.Millisecond)
		synctest.Wait()
		if s := r.server(); s.State != status.Connecting || r.opened[0].isClosed() {
			t.Errorf("given up too early: %s, %s", s.State, s.LastError)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		s := r.server()
		if s.State != status.Reconnecting || !r.opened[0].isClosed() || !strings.Contains(s.LastError, "within 30s (startupTimeoutMs") {
			t.Errorf("after 30 s: %s, %s", s.State, s.LastError)
		}
	})
}

// A call that is never answered fails after callTimeoutMs, to the millisecond.
func TestC43_CallTimeoutIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRigOf(t, func(s *config.Server) { s.CallTimeout = 3 * time.Second }, mute)
		a := newInbox()
		begun := time.Now()
		r.upstream.Forward(request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, a))
		reply := <-a.replies
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("the error came after %s", took)
		}
		if !strings.Contains(reply, `server \"s\" did not answer \"x\" within 3s`) {
			t.Errorf("reply %s", reply)
		}
		if s := r.server(); s.State != status.Connected || len(r.opened) != 1 {
			t.Errorf("%s with %d connections: %s", s.State, len(r.opened), s.LastError)
		}
	})
}
