package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"mcp-funnel/core/jsonrpc"
)

// witness is an MCP server that notes in the file of its first argument what it ran
// and what was cancelled, a line each. Its one tool waits for as many milliseconds as
// it is asked to, and answers with its key and as many bytes as it is asked for.
func witness() {
	w := &witnessServer{running: map[string]string{}}
	reader := jsonrpc.NewReader(os.Stdin, 0)
	for {
		line, err := reader.Read()
		if err != nil {
			os.Exit(0)
		}
		if m, err := jsonrpc.Parse(line); err == nil {
			w.handle(m)
		}
	}
}

type witnessServer struct {
	mu sync.Mutex
	// running are the keys of calls, by id.
	running map[string]string
}

func (w *witnessServer) handle(m jsonrpc.Message) {
	id := string(m.ID.Of(m.Raw))
	switch m.MethodName() {
	case "initialize":
		w.answer(id, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"witness","version":"1"}}`)
	case "tools/list":
		w.answer(id, `{"tools":[{"name":"run","inputSchema":{"type":"object"}}]}`)
	case "ping":
		w.answer(id, "{}")
	case "tools/call":
		w.run(id, m)
	case "notifications/cancelled":
		span, _ := jsonrpc.Lookup(m.Raw, m.Params, "requestId")
		w.mu.Lock()
		key := w.running[string(span.Of(m.Raw))]
		w.mu.Unlock()
		w.note("cancelled " + key)
	}
}

func (w *witnessServer) run(id string, m jsonrpc.Message) {
	var params struct {
		Arguments struct {
			Key      string
			Millis   int
			Size     int
			Progress bool
		}
		Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
	}
	if err := json.Unmarshal(m.Params.Of(m.Raw), &params); err != nil {
		os.Exit(1)
	}
	call := params.Arguments
	w.mu.Lock()
	w.running[id] = call.Key
	w.mu.Unlock()
	w.note(call.Key)
	if call.Progress {
		w.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, params.Meta.ProgressToken))
	}
	go func() {
		time.Sleep(time.Duration(call.Millis) * time.Millisecond)
		w.answer(id, `{"content":[{"type":"text","text":"`+call.Key+` `+strings.Repeat("x", call.Size)+`"}]}`)
	}()
}

// note appends a line in one write, which a kill does not cut.
func (w *witnessServer) note(line string) {
	f, err := os.OpenFile(os.Args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(line + "\n")
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		os.Exit(1)
	}
}

func (w *witnessServer) answer(id, result string) {
	w.write(`{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`)
}

func (w *witnessServer) write(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := os.Stdout.WriteString(line + "\n"); err != nil {
		os.Exit(0)
	}
}
