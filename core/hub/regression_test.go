package hub

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/upstream"
)

// lines collects what a session writes.
type lines struct{ text strings.Builder }

func (l *lines) Write(p []byte) (int, error) { return l.text.Write(p) }

func TestNoProgressFollowsItsReply(t *testing.T) {
	w := newWorld(t)
	defer w.end()
	for range 20000 {
		s := newSession(w.hub, "s1", Peer{})
		m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`))
		if err != nil {
			t.Fatal(err)
		}
		r := &upstream.Request{Message: m, Caller: s}
		s.takeOff([]byte("1"), &flight{request: r})
		var racing sync.WaitGroup
		begin := make(chan struct{})
		racing.Go(func() { <-begin; s.Progress(r, []byte(`P`)) })
		racing.Go(func() { <-begin; s.Reply(r, []byte(`R`)) })
		close(begin)
		racing.Wait()
		s.out.Close()
		var got lines
		if err := s.out.Run(&got, 0); err != nil {
			t.Fatal(err)
		}
		if got.text.String() == "R\nP\n" {
			t.Fatal("progress after its reply")
		}
	}
}

func TestCancelledListThatWasHeldGetsNoReply(t *testing.T) {
	in(t, []string{"a"}, func(_ *testing.T, w *world) {
		c := w.attach()
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		c.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		c.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		close(w.ready)
		c.silent()
	})
}

func TestNothingComesBeforeTheAnswerToInitialize(t *testing.T) {
	w := newWorld(t)
	defer w.end()
	close(w.ready)
	tools := make([]string, 2000)
	for i := range tools {
		tools[i] = fmt.Sprintf("t%d", i)
	}
	for round := range 15 {
		c := w.attach()
		tools[0] = fmt.Sprintf("r%d", round)
		w.setTools(tools...)
		time.Sleep(settleTime + time.Duration(round%5-3)*time.Millisecond)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","clientInfo":{"name":"claude-code","version":"1"}}}`)
		if line := c.receive(); !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":1,"result":`) {
			t.Errorf("first came %s", line)
		}
		_ = c.conn.Close()
	}
}
