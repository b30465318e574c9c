package hub

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// said is the next that the app says to the bridge itself, but for what it is to keep.
func (c *client) said() string {
	c.t.Helper()
	for {
		select {
		case line := <-c.link:
			if !strings.Contains(line, `"resume":`) {
				return line
			}
		case <-time.After(time.Minute):
			c.t.Fatal("the app says nothing to the bridge")
		}
	}
}

// kept is the last that the bridge is to keep.
func (c *client) kept() string {
	c.t.Helper()
	synctest.Wait()
	last := ""
	for len(c.link) > 0 {
		line := <-c.link
		if text, ok := strings.CutPrefix(line, `{"mcp-funnel":1,"resume":"`); ok {
			last = strings.ReplaceAll(strings.TrimSuffix(text, `"}`), `\"`, `"`)
		}
	}
	return last
}

const askTools = `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`

// A client that goes on with another app is told of changed tools if, and only if,
// they differ from what it got from the last one.
func TestResumedSessionIsToldOnlyWhatDiffers(t *testing.T) {
	for name, test := range map[string]struct {
		later []string
		told  bool
	}{
		"the same tools": {[]string{"a", "b"}, false},
		"one less":       {[]string{"a"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			kept := ""
			in(t, []string{"a", "b"}, func(t *testing.T, w *world) {
				close(w.ready)
				c := w.attach()
				c.initialize("x")
				if got := c.kept(); got != "{}" {
					t.Errorf("before any list the bridge keeps %s", got)
				}
				c.send(askTools)
				c.receive()
				kept = c.kept()
			})
			if !strings.Contains(kept, `"tools":"`) {
				t.Fatalf("after a list the bridge keeps %s", kept)
			}
			in(t, test.later, func(t *testing.T, w *world) {
				close(w.ready)
				c := w.resume(kept)
				c.initialize("x")
				if c.kept() == "" {
					t.Error("the bridge is not told that its session is resumed")
				}
				if test.told {
					c.want(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
				c.silent()
			})
		})
	}
}

// Servers that are still starting are no reason to tell a resumed client anything.
func TestResumedSessionIsNotToldOfListsThatAreNotComplete(t *testing.T) {
	kept := ""
	in(t, []string{"a"}, func(_ *testing.T, w *world) {
		close(w.ready)
		c := w.attach()
		c.initialize("x")
		c.send(askTools)
		c.receive()
		kept = c.kept()
	})
	in(t, nil, func(_ *testing.T, w *world) {
		c := w.resume(kept)
		c.initialize("x")
		c.silent()
		w.setTools("a")
		close(w.ready)
		time.Sleep(time.Second)
		c.silent()
	})
}

func TestResumeOfAnotherVersionIsAsIfThereWereNone(t *testing.T) {
	for _, text := range []string{"", "x", "[]", `{"tools":7}`, `{"other":1}`, "\x00"} {
		if got := parseResume(text); got != (resume{}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// An app that makes way lets calls end that run, and hands back what does not.
func TestAppThatIsReplacedFinishesWhatRuns(t *testing.T) {
	in(t, []string{"a"}, func(t *testing.T, w *world) {
		close(w.ready)
		c := w.attach()
		c.initialize("x")
		running := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__a"}}`
		c.send(running)
		r := <-w.server.requests
		w.hub.Bye("replace")
		if got := c.said(); got != `{"mcp-funnel":1,"bye":"replace"}` {
			t.Errorf("said %s", got)
		}
		late := strings.Replace(running, `"id":1`, `"id":2`, 1)
		c.send(late)
		if got := c.said(); got != `{"mcp-funnel":1,"return":`+late+`}` {
			t.Errorf("a call that came late: %s", got)
		}
		begun := time.Now()
		go func() {
			time.Sleep(3 * time.Second)
			reply(r, "{}")
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		w.hub.Drain(ctx)
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("waited %s for a call of 3 s", took)
		}
		c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

func TestAppThatIsReplacedHandsBackWhatWaits(t *testing.T) {
	in(t, []string{"a"}, func(t *testing.T, w *world) {
		close(w.ready)
		c := w.attach()
		c.initialize("x")
		waiting := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__a"}}`
		c.send(waiting)
		<-w.server.requests
		w.server.parked = true
		w.hub.Bye("replace")
		c.said()
		if got := c.said(); got != `{"mcp-funnel":1,"return":`+waiting+`}` {
			t.Errorf("said %s", got)
		}
		w.hub.Drain(t.Context()) // at once: nothing runs
		c.silent()

		late := w.attach() // a bridge that comes now is told at once
		if got := late.said(); got != `{"mcp-funnel":1,"bye":"replace"}` {
			t.Errorf("said %s", got)
		}
	})
}
