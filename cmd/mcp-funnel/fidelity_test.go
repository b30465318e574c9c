package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-funnel/core/jsonrpc"
)

// oddities are members that a program which decodes messages and encodes them again
// does not give back as they were.
const oddities = `"max":9223372036854775807, "huge":1e400,"exp":1E+2,  "neg":-0.0 ,"es\u0063aped":"\u2028<&>\ud83d\ude00 \/ é",` +
	`"Twin":1,"twin":2,"empty":{},"none":null,"list":[ ],"deep":[[{"x":[null,{"y":1.10}]}]]`

// odd is a server whose every word is odd. This test binary plays it under that name.
func odd() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(line)
		if err != nil {
			continue
		}
		id, params := m.ID.Of(m.Raw), m.Params.Of(m.Raw)
		switch method := m.MethodName(); method {
		case "initialize":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{}},"serverInfo":{"name":"odd","version":"1"}}}`, id)
		case "tools/list":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{ "name":"t","inputSchema":{"type":"object","properties":{"n":{%s}}}, "x":{%s}}]}}`, id, oddities, oddities)
		case "prompts/list":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"prompts":[{"name":"p",  "x":{%s}}]}}`, id, oddities)
		case "resources/list":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"resources":[{"uri":"odd://r","name":"r","x":{%s}}]}}`, id, oddities)
		case "resources/templates/list":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"resourceTemplates":[{"uriTemplate":"odd://{v}","name":"t","x":{%s}}]}}`, id, oddities)
		case "tools/call":
			token, _ := jsonrpc.Lookup(m.Raw, m.Params, "_meta", "progressToken")
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,%s}}`, token.Of(m.Raw), oddities)
			say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{%s}}}`, oddities)
			say(`{ "id":  "q" ,"jsonrpc":"2.0","method":"sampling/createMessage","params":{"messages":[],%s}}`, oddities)
			answer, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"unknown",%s}],"answer":%s,"_meta":{%s}}}`, id, oddities, jsonrpc.Quote(strings.TrimSpace(string(answer))), oddities)
		case "acme/fails":
			say(`{"error":{"code":-32050 ,"message":"no","data":{%s}},"id":%s,"jsonrpc":"2.0"}`, oddities, id)
		default:
			if m.Kind == jsonrpc.Request { // and shows what came
				say(`{"jsonrpc":"2.0","id":%s,"result":{"echo":%s,%s}}`, id, jsonrpc.Quote(string(params)), oddities)
			} else if strings.HasPrefix(method, "notifications/acme") {
				say(`{"jsonrpc":"2.0","method":"notifications/echo","params":{"echo":%s,%s}}`, jsonrpc.Quote(string(m.Raw)), oddities)
			}
		}
	}
}

// exchange plays a client: it sends each line and waits for the answer, and returns
// everything the server said.
func exchange(t *testing.T, cmd *exec.Cmd, lines []string) []string {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out := bufio.NewReaderSize(stdout, 1<<20)
	send := func(line string) {
		if _, err := io.WriteString(stdin, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	var said []string
	for _, line := range lines {
		send(line)
		if strings.HasPrefix(line, `{"jsonrpc":"2.0","method":"notifications/initialized"`) {
			continue
		}
		for {
			got, err := out.ReadString('\n')
			if err != nil {
				t.Fatalf("after %s: %v; it said %q", line, err, said)
			}
			got = strings.TrimSuffix(got, "\n")
			if strings.Contains(got, "list_changed") {
				continue
			}
			said = append(said, got)
			m, err := jsonrpc.Parse([]byte(got))
			if err != nil {
				t.Fatalf("%s: %v", got, err)
			}
			if m.Kind == jsonrpc.Request {
				send(`{"jsonrpc":"2.0","result":{"role":"assistant" ,` + oddities + `},"id":` + string(m.ID.Of(m.Raw)) + `}`)
			}
			if m.Kind == jsonrpc.Response || m.MethodName() == "notifications/echo" {
				break
			}
		}
	}
	_ = stdin.Close()
	_ = cmd.Wait()
	return said
}

// questionID is the id of a server's question, which is another one through the app.
var questionID = regexp.MustCompile(`"id": *"[^"]*" *,"jsonrpc"`)

// Every kind of message is the same through bridge and app as without them, byte for
// byte, but for the ids of questions.
func TestInvariant5_EveryKindIsUnchangedThroughBridgeAndApp(t *testing.T) {
	lines := []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}},"clientInfo":{"name":"x","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":2,"method":"prompts/list"}`,
		`{"jsonrpc":"2.0","id":3,"method":"resources/list"}`,
		`{"jsonrpc":"2.0","id":4,"method":"resources/templates/list"}`,
		`{"jsonrpc":"2.0","id":"5","method":"tools/call","params":{"name":"t","arguments":{` + oddities + `},"_meta":{"progressToken":"mine"}}}`,
		`{ "method":"prompts/get","params":{ "arguments":{` + oddities + `},"name":"p"},"id":6,"jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"odd://r",` + oddities + `}}`,
		`{"jsonrpc":"2.0","id":8,"method":"resources/read","params":{"uri":"odd://other",` + oddities + `}}`,
		`{"jsonrpc":"2.0","id":9,"method":"resources/subscribe","params":{"uri":"odd://r",` + oddities + `}}`,
		`{"jsonrpc":"2.0","id":10,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},` + oddities + `}}`,
		`{"jsonrpc":"2.0","id":11,"method":"acme/does","params":[1,{` + oddities + `}]}`,
		`{"jsonrpc":"2.0","id":12.5,"method":"acme/fails"}`,
		`{"jsonrpc":"2.0","method":"notifications/acme","params":{` + oddities + `}}`,
	}
	s := newSandbox(t, `{"mcpServers": {"odd": {"command": "odd", "prefix": ""}}}`)
	s.start("serve")
	s.server("odd", connected)
	path, err := exec.LookPath("odd")
	if err != nil {
		path = program(t)
	}
	direct := exec.CommandContext(t.Context(), path)
	direct.Args[0] = "odd"
	through := s.command("bridge")
	want, got := exchange(t, direct, lines), exchange(t, through, lines)
	for _, said := range [][]string{want, got} {
		said[0] = "" // the handshake is each one's own
		for i, line := range said {
			said[i] = questionID.ReplaceAllString(line, `"id":"Q","jsonrpc"`)
		}
	}
	t.Logf("%d lines", len(got))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("directly (-) and through the app (+):\n%s", diff)
	}
}
