package bridge

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	list   = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	listed = `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"x"}]}}`
	empty  = `{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}`
	notice = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
)

// The handshake and a ping need no app, however long none comes.
func TestC141_HandshakeIsAnsweredWithoutAnApp(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		begun := time.Now()
		w.send(greeting)
		w.want(answer)
		w.send(greeted)
		w.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
		w.want(`{"jsonrpc":"2.0","id":"p","result":{}}`)
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %s", took)
		}
		w.send(list)
		w.want(empty)
		if took := time.Since(begun); took != listPatience {
			t.Errorf("an empty list after %s", took)
		}
		time.Sleep(30 * time.Second)
		a := w.attach()
		a.want(greeting)
		a.send(welcome)
		a.want(greeted)
		w.want(notice) // the empty list was not the truth
		w.send(list)
		a.want(list)
		a.send(listed)
		w.want(listed)
		w.send(call)
		a.want(call)
	})
}

// What this session has seen is what it gets while the app is away, and whether it is
// out of date is for the next app to say.
func TestListsComeFromMemoryWithoutAnApp(t *testing.T) {
	for name, resumes := range map[string]bool{"an app that resumes": true, "an app that does not": false} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				a := w.shakeHands()
				if got := <-w.resumes; got != "" {
					t.Errorf("the first attachment resumes %q", got)
				}
				w.send(list)
				a.want(list)
				if resumes {
					a.send(`{"mcp-funnel":1,"resume":"where we were \"1\"","unknown":{}}`)
				}
				a.send(listed)
				w.want(listed)
				a.send(`{"mcp-funnel":1,"bye":"quit"}`)
				_ = a.conn.Close()
				synctest.Wait()
				begun := time.Now()
				w.send(list)
				w.want(listed)
				if took := time.Since(begun); took != 0 {
					t.Errorf("after a quit nobody is on the way, but the list took %s", took)
				}
				w.send(`{"jsonrpc":"2.0","id":8,"method":"prompts/list"}`)
				w.want(`{"jsonrpc":"2.0","id":8,"result":{"prompts":[]}}`)
				w.send(`{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{"cursor":"2"}}`)
				w.wantError("9", "does not run")

				b := w.attach()
				b.want(greeting)
				if resumes {
					if got := <-w.resumes; got != `where we were "1"` {
						t.Errorf("the second attachment resumes %q", got)
					}
					b.send(`{"mcp-funnel":1,"resume":"go on"}`)
				}
				b.send(welcome)
				b.want(greeted)
				if !resumes {
					w.want(notice)
				}
				w.want(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
				w.silent()
			})
		})
	}
}

// An app that makes way hands back what it has not begun; the successor gets it, and
// what the client asks meanwhile.
func TestRequestsAreHandedBackToTheSuccessor(t *testing.T) {
	in(t, func(_ *testing.T, w *world) {
		a := w.shakeHands()
		w.send(call)
		a.want(call)
		second := strings.Replace(call, `"c"`, `"d"`, 1)
		w.send(second)
		a.want(second)
		a.send(`{"mcp-funnel":1,"bye":"replace"}`)
		a.send(`{"mcp-funnel":1,"return":` + second + `}`)
		synctest.Wait()
		third := strings.Replace(call, `"c"`, `"e"`, 1)
		w.send(third)
		cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`
		w.send(cancel) // the old one still has calls that can be cancelled
		a.want(cancel)
		time.Sleep(9 * time.Second) // the first call ends
		a.send(`{"jsonrpc":"2.0","id":"c","result":{}}`)
		w.want(`{"jsonrpc":"2.0","id":"c","result":{}}`)
		_ = a.conn.Close()
		b := w.attach()
		b.want(greeting)
		b.send(welcome)
		b.want(greeted)
		b.want(second)
		b.want(third)
		w.silent()
		b.send(`{"jsonrpc":"2.0","id":"d","result":{}}`)
		w.want(`{"jsonrpc":"2.0","id":"d","result":{}}`)
	})
}

// Calls that certainly did not leave are sent to the next app; of those that may have,
// none is.
func TestOnlyCallsThatDidNotLeaveAreSentAgain(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.shakeHands()
		// The app reads no more: its reader takes one line and stops at a full channel.
		for range cap(a.lines) + 1 {
			w.send(`{"jsonrpc":"2.0","method":"notifications/x"}`)
		}
		synctest.Wait()
		for i := range 3 {
			w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x"}}`, i+1))
			synctest.Wait() // the first one is on its way, the others are queued
		}
		_ = a.conn.Close()
		b := w.attach()
		b.want(greeting)
		b.send(welcome)
		b.want(greeted)
		sent := map[string]bool{}
		synctest.Wait()
		for len(b.lines) > 0 {
			if line := <-b.lines; strings.Contains(line, "tools/call") {
				sent[line[22:23]] = true
			}
		}
		refused := map[string]bool{}
		for len(w.fromBridge) > 0 {
			if line := <-w.fromBridge; strings.Contains(line, "may have run") {
				refused[line[22:23]] = true
			}
		}
		if len(sent)+len(refused) != 3 || len(sent) < 2 {
			t.Errorf("sent again: %v; refused: %v", sent, refused)
		}
		for id := range sent {
			if refused[id] {
				t.Errorf("call %s was refused and sent again", id)
			}
		}
		for range a.lines { // let its reader end
		}
	})
}

// An answer of the client to what a former app asked concerns nobody.
func TestAnswersToAFormerAppAreDropped(t *testing.T) {
	in(t, func(_ *testing.T, w *world) {
		a := w.shakeHands()
		_ = a.conn.Close()
		synctest.Wait()
		w.send(`{"jsonrpc":"2.0","id":"nonce-1","result":{}}`)
		b := w.attach()
		b.want(greeting)
		b.send(welcome)
		b.want(greeted)
		w.send(call)
		b.want(call) // and not the answer
	})
}

// Why no app can be reached is told to whoever waited.
func TestTroubleIsInTheError(t *testing.T) {
	if text := notRunning(fmt.Errorf("this one speaks 3, the other 1")); !strings.Contains(text, "speaks 3") || !strings.Contains(text, "nothing was called") {
		t.Error(text)
	}
}
