package upstream

import (
	"fmt"
	"strings"
	"testing"
)

// Invariant: nobody is asked what another one caused. Over pipes nothing says for whom
// a server asks; with calls of several sessions under way it is told so.
func TestInvariantQuestions(t *testing.T) {
	t.Run("who-asked", func(t *testing.T) {
		r := newRig(t, "ok")
		r.connected()
		one, two := newSessionIn("s1", ""), newSessionIn("s2", "")
		for round := range 200 {
			for _, s := range []*fakeSession{one, two} {
				r.upstream.Forward(request(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ask-both"}}`, round), s))
			}
			for _, s := range []*fakeSession{one, two} {
				if reply := s.inbox.wait(t); !strings.Contains(reply, `"code":-32601`) || !strings.Contains(reply, "several clients") {
					t.Fatalf("round %d, %s: %s", round, s.id, reply)
				}
			}
		}
		if n := len(one.asked) + len(two.asked); n > 0 {
			t.Errorf("%d questions reached a session", n)
		}
		// Two calls of one session leave no doubt.
		for id := range 2 {
			r.upstream.Forward(request(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ask-both"}}`, id), one))
		}
		for range 2 {
			(<-one.asked).Refuse(notCalled("s", request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, one), "is busy"))
			if reply := one.inbox.wait(t); !strings.Contains(reply, "is busy") {
				t.Errorf("reply %s", reply)
			}
		}
	})
}
