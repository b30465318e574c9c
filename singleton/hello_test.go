package singleton

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// exchangeHello runs Accept on one end of a pipe and writes text into the other.
// It returns what Accept made of it and what it answered by itself.
func exchangeHello(t *testing.T, text string) (*Conn, Hello, string, error) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	go func() { _, _ = io.WriteString(theirs, text) }()
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(theirs).ReadString('\n')
		answer <- line
	}()
	conn, h, err := Accept(t.Context(), ours)
	if err != nil {
		return conn, h, <-answer, err
	}
	return conn, h, "", nil
}

func TestHelloBothWays(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	sent := Hello{
		Protocol: Protocol, Role: RoleBridge, Version: "1.2", PID: 7, PPID: 6, CWD: "/src", Name: "funnel",
		Env: map[string]string{"CLAUDE_PROJECT_DIR": "/src"}, Resume: "opaque",
	}
	welcomed := make(chan error, 1)
	var got Welcome
	dialled := &Conn{Conn: theirs, R: bufio.NewReader(theirs)}
	go func() {
		var err error
		got, err = dialled.greet(t.Context(), sent)
		welcomed <- err
	}()
	conn, h, err := Accept(t.Context(), ours)
	mustDo(t, err)
	if diff := cmp.Diff(sent, h); diff != "" {
		t.Errorf("hello (-sent +got):\n%s", diff)
	}
	mustDo(t, conn.Welcome(Welcome{Version: "1.3", Session: "s1", Mode: ModeTray}))
	mustDo(t, <-welcomed)
	if want := (Welcome{Protocol, "1.3", "s1", ModeTray, ""}); got != want {
		t.Errorf("welcome %+v, want %+v", got, want)
	}
}

// What others read on the wire.
func TestHelloOnTheWire(t *testing.T) {
	hello, err := json.Marshal(Hello{Protocol: 1, Role: RoleControl, Version: "1", PID: 2, PPID: 3, CWD: "/"})
	mustDo(t, err)
	if want := `{"mcp-funnel":1,"role":"control","version":"1","pid":2,"ppid":3,"cwd":"/"}`; string(hello) != want {
		t.Errorf("hello %s, want %s", hello, want)
	}
	welcome, err := json.Marshal(Welcome{Protocol: 1, Error: "no"})
	mustDo(t, err)
	if want := `{"mcp-funnel":1,"error":"no"}`; string(welcome) != want {
		t.Errorf("welcome %s, want %s", welcome, want)
	}
}

func TestHelloKeepsWhatFollows(t *testing.T) {
	conn, _, _, err := exchangeHello(t, `{"mcp-funnel":1,"role":"bridge"}`+"\nnext line\n")
	mustDo(t, err)
	line, err := conn.R.ReadString('\n')
	if err != nil || line != "next line\n" {
		t.Errorf("read %q, %v", line, err)
	}
}

func TestHelloOfAnotherVersion(t *testing.T) {
	for _, v := range []string{"1", "2"} {
		_, _, _, err := exchangeHello(t, `{"mcp-funnel":`+v+`,"role":"control","new":{"x":[]}}`+"\n")
		if err != nil {
			t.Errorf("version %s: %v", v, err)
		}
	}
	conn, _, answer, err := exchangeHello(t, `{"mcp-funnel":3,"role":"control","version":"9.9"}`+"\n")
	far := wantError[*ProtocolError](t, err)
	if *far != (ProtocolError{Ours: 1, Theirs: 3, Version: "9.9"}) || conn != nil {
		t.Errorf("%+v, %v", far, conn)
	}
	var w Welcome
	mustDo(t, json.Unmarshal([]byte(answer), &w))
	if !strings.Contains(w.Error, "version 1 ") || !strings.Contains(w.Error, "speaks 3") || !strings.Contains(w.Error, "9.9") {
		t.Errorf("the answer does not name both versions: %q", w.Error)
	}
}

func TestHelloThatIsNone(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":      "GET / HTTP/1.1\n",
		"MCP":          `{"jsonrpc":"2.0","id":1,"method":"initialize"}` + "\n",
		"version 0":    `{"mcp-funnel":0,"role":"control"}` + "\n",
		"no role":      `{"mcp-funnel":1}` + "\n",
		"strange role": `{"mcp-funnel":1,"role":"king"}` + "\n",
		"empty":        "\n",
		"too long":     `{"mcp-funnel":1,"role":"control","name":"` + strings.Repeat("x", maxHello) + `"}` + "\n",
	} {
		_, _, answer, err := exchangeHello(t, text)
		wantError[*HelloError](t, err)
		var w Welcome
		if json.Unmarshal([]byte(answer), &w) != nil || w.Error == "" {
			t.Errorf("%s is answered with %q", name, answer)
		}
	}
}

func TestHelloOfTheLongestKind(t *testing.T) {
	start, end := `{"mcp-funnel":1,"role":"control","name":"`, `"}`+"\n"
	_, h, _, err := exchangeHello(t, start+strings.Repeat("x", maxHello-len(start)-len(end))+end)
	if err != nil || len(h.Name) < maxHello/2 {
		t.Errorf("%d bytes of name, %v", len(h.Name), err)
	}
	var c Conn
	if err := c.writeLine(Hello{Resume: strings.Repeat("x", maxHello)}); err == nil {
		t.Error("a hello that no one would read is sent")
	}
}

func TestHelloCutOff(t *testing.T) {
	ours, theirs := net.Pipe()
	go func() {
		_, _ = io.WriteString(theirs, `{"mcp-funnel":1,`)
		theirs.Close()
	}()
	if _, _, err := Accept(t.Context(), ours); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
}

func TestHelloThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		began := time.Now()
		_, _, err := Accept(t.Context(), ours)
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took != helloTimeout {
			t.Errorf("after %v", took)
		}
		if _, err := theirs.Write([]byte("x")); err == nil {
			t.Error("the connection is still open")
		}
	})
}

func TestHelloEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		stop := errors.New("stop")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, stop)
		defer cancel()
		if _, _, err := Accept(ctx, ours); !errors.Is(err, stop) {
			t.Errorf("error %v", err)
		}
	})
}

func TestHelloLeavesNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		go func() { _, _ = io.WriteString(theirs, `{"mcp-funnel":1,"role":"bridge"}`+"\n") }()
		conn, _, err := Accept(t.Context(), ours)
		mustDo(t, err)
		defer conn.Close()
		go func() {
			time.Sleep(time.Hour)
			_, _ = io.WriteString(theirs, "late\n")
		}()
		if line, err := conn.R.ReadString('\n'); line != "late\n" {
			t.Errorf("read %q, %v", line, err)
		}
	})
}

func FuzzParseHello(f *testing.F) {
	f.Add([]byte(`{"mcp-funnel":1,"role":"bridge","version":"1","pid":1,"ppid":1,"cwd":"/","env":{"A":"b"}}`))
	f.Add([]byte(`{"mcp-funnel":9}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		h, err := parseHello(line)
		if err == nil && (h.Protocol < 1 || h.Protocol > Protocol+1 || h.Role == "") {
			t.Errorf("accepted %q as %+v", line, h)
		}
	})
}

func FuzzParseWelcome(f *testing.F) {
	f.Add([]byte(`{"mcp-funnel":1,"version":"1","session":"s","mode":"tray"}`))
	f.Add([]byte(`{"mcp-funnel":1,"error":"no"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		w, err := parseWelcome(line)
		if err == nil && (w.Protocol < 1 || w.Error != "") {
			t.Errorf("accepted %q as %+v", line, w)
		}
	})
}
