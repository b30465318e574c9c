package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// errDown is what the built-in server says while it plays dead.
var errDown = errors.New("demo server: the file says that I am down")

// demoServer is a small MCP server over stdio (MCP 2025-11-25) for the demo, for
// tests and for trying things out.
type demoServer struct {
	out io.Writer
	// calls counts tools/call, so that a call that ran twice shows.
	calls int
	// tools is the answer to tools/list.
	tools []byte
}

// demoTools are the tools of the built-in server.
const demoTools = `{"name":"echo","description":"Say the message back","inputSchema":{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}},` +
	`{"name":"add","description":"Add two numbers","inputSchema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}},` +
	`{"name":"calls","description":"How many calls this process has answered, and its process id","inputSchema":{"type":"object","properties":{}}},` +
	`{"name":"crash","description":"End this server in the middle of the call","inputSchema":{"type":"object","properties":{}}},` +
	`{"name":"hang","description":"Never answer","inputSchema":{"type":"object","properties":{}}},` +
	`{"name":"progress","description":"Report progress three times, then answer","inputSchema":{"type":"object","properties":{}}}`

// runDemoServer serves until in ends. While the file downWhile exists it refuses to
// start; extra adds that many tools.
func runDemoServer(in io.Reader, out io.Writer, downWhile string, extra int) error {
	if downWhile != "" {
		if _, err := os.Stat(downWhile); err == nil {
			return errDown
		}
	}
	var tools strings.Builder
	tools.WriteString(`{"tools":[` + demoTools)
	for i := range extra {
		fmt.Fprintf(&tools, `,{"name":"tool_%d","description":"One of many","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}`, i)
	}
	tools.WriteString("]}")
	s := &demoServer{out: out, tools: []byte(tools.String())}
	reader := jsonrpc.NewReader(in, 0)
	for {
		line, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a request: %w", err)
		}
		m, err := jsonrpc.Parse(line)
		if err != nil || m.Kind != jsonrpc.Request {
			continue
		}
		if err := s.answer(m); err != nil {
			return err
		}
	}
}

// answer handles one request.
func (s *demoServer) answer(m jsonrpc.Message) error {
	id := m.ID.Of(m.Raw)
	switch mcp.MCPMethod(m.MethodName()) {
	case mcp.MethodInitialize:
		return s.write(jsonrpc.NewResult(id, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},`+
			`"serverInfo":{"name":"mcp-funnel-demo-server","version":"1"}}`)))
	case mcp.MethodPing:
		return s.write(jsonrpc.NewResult(id, []byte("{}")))
	case mcp.MethodToolsList:
		return s.write(jsonrpc.NewResult(id, s.tools))
	case mcp.MethodToolsCall:
		s.calls++
		return s.call(m)
	default:
		return s.write(jsonrpc.NewError(id, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "unknown method"}))
	}
}

// call runs one tool.
func (s *demoServer) call(m jsonrpc.Message) error {
	var params struct {
		Name      string
		Arguments struct {
			Message string
			A, B    float64
		}
		Meta struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	id := m.ID.Of(m.Raw)
	if err := json.Unmarshal(m.Params.Of(m.Raw), &params); err != nil {
		return s.write(jsonrpc.NewError(id, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}))
	}
	switch params.Name {
	case "echo":
		return s.text(id, params.Arguments.Message)
	case "add":
		return s.text(id, strconv.FormatFloat(params.Arguments.A+params.Arguments.B, 'f', -1, 64))
	case "calls":
		return s.text(id, fmt.Sprintf("calls=%d pid=%d", s.calls, os.Getpid()))
	case "crash":
		return errors.New("demo server: crashing as I was asked to")
	case "hang":
		return nil
	case "progress":
		for step := range 3 {
			note := fmt.Appendf(nil, `{"progressToken":%s,"progress":%d,"total":3}`, params.Meta.ProgressToken, step+1)
			if params.Meta.ProgressToken == nil {
				break
			}
			if err := s.write(jsonrpc.NewNotification("notifications/progress", note)); err != nil {
				return err
			}
		}
		return s.text(id, "done")
	}
	if strings.HasPrefix(params.Name, "tool_") {
		return s.text(id, params.Name)
	}
	return s.write(jsonrpc.NewError(id, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool " + params.Name}))
}

func (s *demoServer) text(id []byte, text string) error {
	return s.write(jsonrpc.NewResult(id, []byte(`{"content":[{"type":"text","text":`+string(jsonrpc.Quote(text))+`}]}`)))
}

func (s *demoServer) write(message []byte) error {
	if _, err := s.out.Write(append(message, '\n')); err != nil {
		return fmt.Errorf("answering: %w", err)
	}
	return nil
}
