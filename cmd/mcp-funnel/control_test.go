package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fakeInstance is the other end of a control connection. It answers each request
// with what reply makes of it, "" for nothing.
func fakeInstance(t *testing.T, reply func(request string) string) *control {
	t.Helper()
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = theirs.Close() }()
		requests := bufio.NewScanner(theirs)
		for requests.Scan() {
			if _, err := io.WriteString(theirs, reply(requests.Text())); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = ours.Close()
		<-done
	})
	return newControl(ours, ours)
}

func TestControlAsk(t *testing.T) {
	c := fakeInstance(t, func(request string) string {
		if want := `{"jsonrpc":"2.0","id":1,"method":"enable","params":{"name":"x"}}`; request != want {
			t.Errorf("request %s, want %s", request, want)
		}
		// Link messages, events and replies to others come in between.
		return `{"mcp-funnel":1,"bye":"quit"}` + "\n" +
			`{"jsonrpc":"2.0","method":"event","params":{}}` + "\n" +
			`{"jsonrpc":"2.0","id":7,"result":{}}` + "\n" +
			`{"jsonrpc":"2.0","id":1,"result":{"a": 1.0}}` + "\n"
	})
	raw, err := c.ask(t.Context(), "enable", map[string]string{"name": "x"})
	if err != nil || string(raw) != `{"a": 1.0}` {
		t.Errorf("got %s, %v", raw, err)
	}
}

func TestControlErrorsCarryTheExitCode(t *testing.T) {
	for _, test := range []struct {
		name, refusal string
		code          int
	}{
		{"usual", `{"code":-32602,"message":"there is no server \"x\""}`, exitFailed},
		{"of the instance's choice", `{"code":-32000,"message":"there is no server \"x\"","data":{"exit":4}}`, exitInvalidConfig},
		{"other data", `{"code":-32000,"message":"there is no server \"x\"","data":"exit"}`, exitFailed},
		{"not success", `{"code":-32000,"message":"there is no server \"x\"","data":{"exit":0}}`, exitFailed},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := fakeInstance(t, func(string) string { return `{"jsonrpc":"2.0","id":1,"error":` + test.refusal + "}\n" })
			_, err := c.ask(t.Context(), "enable", nil)
			var exit *exitError
			if !errors.As(err, &exit) || exit.code != test.code || exit.Error() != `there is no server "x"` {
				t.Errorf("got %v, want it with code %d", err, test.code)
			}
		})
	}
}

func TestControlNeverWaitsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakeInstance(t, func(string) string { return "" })
		begun := time.Now()
		_, err := c.ask(t.Context(), "status", nil)
		if _, silent := errors.AsType[*silenceError](err); !silent || !strings.Contains(err.Error(), "10s") {
			t.Errorf("got %v, want a *silenceError", err)
		}
		if waited := time.Since(begun); waited != answerTimeout {
			t.Errorf("it took %v, want %v", waited, answerTimeout)
		}
	})
}

// One that does not even read makes the write wait.
func TestControlNeverWaitsForEverToBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer func() { _, _ = ours.Close(), theirs.Close() }()
		_, err := newControl(ours, ours).ask(t.Context(), "status", nil)
		if _, silent := errors.AsType[*silenceError](err); !silent {
			t.Errorf("got %v, want a *silenceError", err)
		}
	})
}

func TestControlEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakeInstance(t, func(string) string { return "" })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.notification(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
	})
}

func TestControlTellsAnEndedInstance(t *testing.T) {
	ours, theirs := net.Pipe()
	_ = theirs.Close()
	if _, err := newControl(ours, ours).notification(t.Context()); !errors.Is(err, errGone) {
		t.Errorf("got %v, want errGone", err)
	}
}
