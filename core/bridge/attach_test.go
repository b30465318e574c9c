package bridge

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Nothing is started for what needs no app.
func TestNotificationsAloneStartNothing(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		w.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		w.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
		w.want(`{"jsonrpc":"2.0","id":"p","result":{}}`)
		synctest.Wait()
		if len(w.starts) != 0 {
			t.Error("it dialled")
		}
	})
}

// An app that is reached in its last moments says that it ends: as if it had said so
// to a session that was attached all the time.
func TestAppThatLeavesDuringTheHandshake(t *testing.T) {
	for reason, starts := range map[string]bool{"quit": false, "replace": false, "": true} {
		for _, answers := range []bool{false, true} {
			in(t, func(t *testing.T, w *world) {
				w.send(greeting)
				w.want(answer)
				a := w.attach()
				<-w.starts
				a.want(greeting)
				if reason != "" {
					a.send(`{"mcp-funnel":1,"bye":"` + reason + `"}`)
					if answers {
						a.send(welcome)
					}
				}
				_ = a.conn.Close()
				if <-w.starts != starts && reason != "" {
					t.Errorf("bye %q, answered %v: started: %v", reason, answers, !starts)
				}
				w.send(call)
				if reason == "" { // the start's turn comes after one of waiting
					<-w.starts
				}
				time.Sleep(time.Second)
				b := w.attach()
				b.want(greeting)
				b.send(welcome)
				b.want(call)
			})
		}
	}
}

// failing is a bridge whose attempts to attach fail at once.
func failing(t *testing.T, attempts *atomic.Int64) (send func(string), lines chan string, end func()) {
	t.Helper()
	in, toBridge := io.Pipe()
	fromBridge, out := io.Pipe()
	lines = make(chan string, 100)
	go readLines(fromBridge, lines)
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), Options{
			In: in, Out: out, Log: slog.New(slog.DiscardHandler),
			Dial: func(context.Context, bool, string) (Link, error) {
				attempts.Add(1)
				return Link{}, errors.New("there is no folder for the socket")
			},
		})
		_ = out.Close()
	}()
	send = func(line string) {
		if _, err := io.WriteString(toBridge, line+"\n"); err != nil {
			t.Error(err)
		}
	}
	return send, lines, func() {
		_ = toBridge.Close()
		<-done
	}
}

// What cannot work is tried again all the time, less and less often, and at once when
// somebody waits.
func TestAttemptsThatFailAtOnceBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int64
		send, lines, end := failing(t, &attempts)
		defer end()
		send(greeting)
		<-lines
		time.Sleep(time.Hour)
		if n := attempts.Load(); n > 2*(3600/30+10) || n < 3600/30 {
			t.Errorf("%d attempts in an hour", n)
		}
		synctest.Wait()
		time.Sleep(5 * time.Second)
		before := attempts.Load()
		send(call)
		time.Sleep(firstPause)
		synctest.Wait()
		if attempts.Load() == before {
			t.Error("nothing is tried for a call that waits")
		}
		if line := <-lines; !strings.Contains(line, "no folder for the socket") {
			t.Errorf("the call got %s", line)
		}
	})
}

// An answer to a question of an app that is gone may mean something else to the next.
func TestAnswersGoToTheAppThatAsked(t *testing.T) {
	in(t, func(_ *testing.T, w *world) {
		a := w.shakeHands()
		question := `{"jsonrpc":"2.0","id":"q1","method":"roots/list"}`
		a.send(question)
		w.want(question)
		_ = a.conn.Close()
		b := w.attach()
		b.want(greeting)
		b.send(welcome)
		b.want(greeted)
		w.send(`{"jsonrpc":"2.0","id":"q1","result":{"roots":[]}}`)
		w.send(call)
		b.want(call) // and not the answer
		b.send(question)
		w.want(question)
		w.send(`{"jsonrpc":"2.0","id":"q1","result":{"roots":[]}}`)
		b.want(`{"jsonrpc":"2.0","id":"q1","result":{"roots":[]}}`)
	})
}

// What would not fit into a hello is no reason not to attach.
func TestLongResumeIsLeftOut(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.shakeHands()
		<-w.resumes
		a.send(`{"mcp-funnel":1,"resume":"` + strings.Repeat("x", longestResume+1) + `"}`)
		_ = a.conn.Close()
		b := w.attach()
		if resume := <-w.resumes; resume != "" {
			t.Errorf("it resumes with %d bytes", len(resume))
		}
		b.want(greeting)
		b.send(welcome)
		b.want(greeted)
	})
}

// A call that runs when the app is quit gets one error, which says so.
func TestRunningCallIsRefusedAfterAQuit(t *testing.T) {
	in(t, func(_ *testing.T, w *world) {
		a := w.shakeHands()
		w.send(call)
		a.want(call)
		a.send(`{"mcp-funnel":1,"bye":"quit"}`)
		_ = a.conn.Close()
		w.wantError(`"c"`, "quit, and the connection to it lost; the call may have run. Start it")
		w.silent()
	})
}

// While the client does not read, no app is attached to: it would only fill up. In
// real time, because a mutex is waited for.
func TestDoesNotAttachWhileTheClientDoesNotRead(t *testing.T) {
	in, toBridge := io.Pipe()
	fromBridge, out := io.Pipe()
	dials, outcomes, done := make(chan struct{}, 100), make(chan error), make(chan struct{})
	go func() {
		defer close(done)
		_ = Run(t.Context(), Options{
			In: in, Out: out, Log: slog.New(slog.DiscardHandler),
			Dial: func(ctx context.Context, _ bool, _ string) (Link, error) {
				dials <- struct{}{}
				select {
				case err := <-outcomes:
					return Link{}, err
				case <-ctx.Done():
					return Link{}, ctx.Err()
				}
			},
		})
		_ = out.Close()
	}()
	if _, err := io.WriteString(toBridge, call+"\n"); err != nil {
		t.Fatal(err)
	}
	<-dials
	if _, err := io.WriteString(toBridge, `{"jsonrpc":"2.0","id":"p","method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // the bridge is stuck in answering the ping
	outcomes <- errors.New("no app")
	select {
	case <-dials:
		t.Error("it tries to attach")
	case <-time.After(300 * time.Millisecond):
	}
	go func() { _, _ = io.Copy(io.Discard, fromBridge) }()
	select {
	case <-dials:
	case <-time.After(5 * time.Second):
		t.Error("it does not try to attach although the client reads again")
	}
	_ = toBridge.Close()
	<-done
}

func TestResultIsFoundInEveryKindOfReply(t *testing.T) {
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}`:                  `{"tools":[]}`,
		`{"result":{"tools":[1]},"id":7,"jsonrpc":"2.0"}`:                 `{"tools":[1]}`,
		`{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"\"no\""}}`:  "",
		`{"jsonrpc":"2.0","id":7, "result":{}}`:                           `{}`,
		`{"jsonrpc":"2.0","id":77,"result":{}}`:                           `{}`,
		`{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"},"a":1}`: "",
	} {
		got, ok := resultOf("7", []byte(line))
		if string(got) != want || ok != (want != "") {
			t.Errorf("%s: %s, %v", line, got, ok)
		}
	}
}

// The rest of a list in pages is not known, so that none of it is told.
func TestListInPagesIsNotTold(t *testing.T) {
	in(t, func(_ *testing.T, w *world) {
		a := w.shakeHands()
		w.send(list)
		a.want(list)
		paged := `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"x"}],"nextCursor":"2"}}`
		a.send(paged)
		w.want(paged)
		a.send(`{"mcp-funnel":1,"bye":"quit"}`)
		_ = a.conn.Close()
		synctest.Wait()
		w.send(list)
		w.want(empty)
	})
}
