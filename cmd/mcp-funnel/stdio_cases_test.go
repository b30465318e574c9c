//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcp-funnel/core"
	"mcp-funnel/core/jsonrpc"
)

// send writes requests without waiting for their replies.
func (s *sandbox) send(c *demoClient, lines ...string) {
	s.t.Helper()
	if _, err := io.WriteString(c.stdin, strings.Join(lines, "\n")+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

// receive waits for the next reply, whatever it answers.
func (s *sandbox) receive(c *demoClient) string {
	s.t.Helper()
	for {
		select {
		case m, open := <-c.lines:
			if !open {
				s.t.Fatal("the bridge ended")
			}
			if m.Kind == jsonrpc.Response {
				return string(m.Raw)
			}
		case <-time.After(patience):
			s.t.Fatal("no reply")
		}
	}
}

// toolCall is a tools/call on the wire.
func toolCall(id, tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

// A message above the limit fails alone, in either direction.
func TestC40_MessageAboveTheLimitFailsAlone(t *testing.T) {
	if jsonrpc.MaxLine < 32<<20 {
		t.Fatalf("the limit is %d bytes", jsonrpc.MaxLine)
	}
	s := newSandbox(t, fmt.Sprintf(`{"mcpServers": {"demo": {"command": "faulty", "args": ["--pad", "%d"]}}}`, jsonrpc.MaxLine))
	s.start("serve")
	c := s.client()
	pid := s.server("demo", connected).PID
	for what, message := range map[string]string{"request": strings.Repeat("x", jsonrpc.MaxLine), "answer": "PAD"} {
		s.send(c, toolCall(`"big"`, "demo__echo", `{"message":"`+message+`"}`))
		got := s.receive(c)
		if !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"big","error":`) || !strings.Contains(got, "longer than 64 MiB") {
			t.Errorf("too long a %s: %.200s", what, got)
		}
		if got := s.must(c, "demo__echo", `{"message":"small"}`); got != "small" {
			t.Errorf("after too long a %s the next small call got %q", what, got)
		}
	}
	if now := s.server("demo", connected).PID; now != pid {
		t.Errorf("the server was restarted: %d, then %d", pid, now)
	}
}

// What a server writes to stderr is in its log, and no client gets a byte of it.
func TestC41_StderrGoesToTheLogOfItsServer(t *testing.T) {
	s := newSandbox(t, `{"mcpServers": {"loud": {"command": "faulty", "args": ["--flood", "262144"]}}}`)
	s.start("serve")
	s.server("loud", connected)
	bridge := s.command("bridge")
	var stdout lockedBuffer
	bridge.Stdout = &stdout
	in, err := bridge.StdinPipe()
	if err == nil {
		err = bridge.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	const calls = 5
	s.send(&demoClient{stdin: in}, `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	for i := range calls {
		s.send(&demoClient{stdin: in}, toolCall(strconv.Itoa(i), "loud__add", `{"a":1,"b":2}`))
	}
	s.eventuallyTrue("all is answered", func() bool { return strings.Count(stdout.String(), "\n") == calls+1 })
	_ = in.Close()
	if err := bridge.Wait(); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(stdout.String()) {
		if m, err := jsonrpc.Parse([]byte(strings.TrimSpace(line))); err != nil || m.Error.Present() || strings.Contains(line, "flood") {
			t.Errorf("on the client's stdin: %.200s", line)
		}
	}
	log, err := os.ReadFile(core.ServerLogPath(filepath.Join(s.dir, "state", "mcp-funnel"), "loud"))
	if got := strings.Count(string(log), "flood "); err != nil || got < calls*262144/6 {
		t.Errorf("%d words of stderr in the log, %v", got, err)
	}
}
