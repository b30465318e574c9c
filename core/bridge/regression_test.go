package bridge

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

// The app is attached and does not read: stopped, or in a debugger. In real time,
// because waiting for a mutex holds up a bubble.
func TestEndsWhenTheClientLeftAlthoughTheAppDoesNotRead(t *testing.T) {
	in, toBridge := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = Run(context.Background(), Options{
			In: in, Out: io.Discard, Log: slog.New(slog.DiscardHandler),
			Dial: func(context.Context, bool, string) (Link, error) {
				_, theirs := net.Pipe() // nobody reads the other end
				return Link{WriteCloser: theirs, R: bufio.NewReader(theirs)}, nil
			},
		})
	}()
	if _, err := io.WriteString(toBridge, call+"\n"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // it is stuck now
	_ = toBridge.Close()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Error("it is still there")
	}
}

// A reply may begin like a link message: it comes from a server byte for byte.
func TestReplyThatLooksLikeALinkMessageIsAReply(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.shakeHands()
		<-w.starts
		w.send(call)
		a.want(call)
		reply := `{"mcp-funnel":1,"bye":"quit","jsonrpc":"2.0","id":"c","result":{}}`
		a.send(reply)
		w.want(reply)
		_ = a.conn.Close()
		if !<-w.starts {
			t.Error("a server made the bridge believe that the user quit the app")
		}
		w.attach()
	})
}

func TestRequestsAreRepeatedInTheirOrder(t *testing.T) {
	for range 10 {
		in(t, func(t *testing.T, w *world) {
			w.send(greeting)
			w.want(answer)
			for i := range 5 {
				w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, i+1))
			}
			a := w.attach()
			a.want(greeting)
			a.send(welcome)
			for range 5 {
				<-a.lines
			}
			_ = a.conn.Close()
			b := w.attach()
			b.want(greeting)
			b.send(welcome)
			for i := range 5 {
				if line := <-b.lines; !strings.Contains(line, fmt.Sprintf(`"id":%d,`, i+1)) {
					t.Errorf("%s at place %d", line, i+1)
				}
			}
		})
	}
}
