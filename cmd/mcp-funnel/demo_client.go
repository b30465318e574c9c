package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
	"mcp-funnel/singleton"
)

// shortTemp is a folder in which the path of a socket stays short; "" is the usual
// one.
func shortTemp() string {
	if runtime.GOOS == "windows" {
		return ""
	}
	return "/tmp"
}

// demoClient is a minimal MCP client at the other end of a bridge's stdio.
type demoClient struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan jsonrpc.Message
	lastID int64
}

// startClient starts the bridge.
func startClient(cmd *exec.Cmd) (*demoClient, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the bridge: %w", err)
	}
	c := &demoClient{cmd: cmd, stdin: stdin, lines: make(chan jsonrpc.Message, 16)}
	go c.read(stdout)
	return c, nil
}

// read passes on the messages of the bridge; it ends with the bridge.
func (c *demoClient) read(stdout io.Reader) {
	defer close(c.lines)
	reader := jsonrpc.NewReader(stdout, 0)
	for {
		line, err := reader.Read()
		if err != nil {
			return
		}
		if m, err := jsonrpc.Parse(line); err == nil {
			c.lines <- m
		}
	}
}

// request sends a request and waits for its result.
func (c *demoClient) request(ctx context.Context, method, params string) (jsonrpc.Message, error) {
	c.lastID++
	id := c.lastID
	if _, err := c.stdin.Write(append(jsonrpc.NewRequest(id, method, []byte(params)), '\n')); err != nil {
		return jsonrpc.Message{}, fmt.Errorf("%s: %w", method, err)
	}
	for {
		select {
		case m, open := <-c.lines:
			switch {
			case !open:
				return m, fmt.Errorf("%s: the bridge ended", method)
			case m.Kind != jsonrpc.Response || string(m.ID.Of(m.Raw)) != fmt.Sprint(id):
			case m.Error.Present():
				return m, fmt.Errorf("%s: %s", method, m.Error.Of(m.Raw))
			default:
				return m, nil
			}
		case <-ctx.Done():
			return jsonrpc.Message{}, fmt.Errorf("%s: no answer", method)
		}
	}
}

// initialize shakes hands and returns the title of the other side.
func (c *demoClient) initialize(ctx context.Context) (string, error) {
	m, err := c.request(ctx, "initialize",
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mcp-funnel-demo","version":"1"}}`)
	if err != nil {
		return "", err
	}
	if _, err := c.stdin.Write(append(jsonrpc.NewNotification("notifications/initialized", nil), '\n')); err != nil {
		return "", fmt.Errorf("notifications/initialized: %w", err)
	}
	title, _ := jsonrpc.Lookup(m.Raw, m.Result, "serverInfo", "title")
	name, _ := jsonrpc.Unquote(title.Of(m.Raw))
	return name, nil
}

// tools returns the names of the tools.
func (c *demoClient) tools(ctx context.Context) ([]string, error) {
	m, err := c.request(ctx, "tools/list", "{}")
	if err != nil {
		return nil, err
	}
	var result struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(m.Result.Of(m.Raw), &result); err != nil {
		return nil, fmt.Errorf("tools/list: %w", err)
	}
	var names []string
	for _, tool := range result.Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

// call calls a tool and returns the text of its answer.
func (c *demoClient) call(ctx context.Context, tool, arguments string) (string, error) {
	m, err := c.request(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	if err != nil {
		return "", err
	}
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(m.Result.Of(m.Raw), &result); err != nil || len(result.Content) != 1 {
		return "", fmt.Errorf("tools/call: cannot make sense of %s", m.Result.Of(m.Raw))
	}
	return result.Content[0].Text, nil
}

// close ends the session as a client does, and waits for the bridge to go.
func (c *demoClient) close(ctx context.Context) error {
	if err := c.stdin.Close(); err != nil {
		return fmt.Errorf("closing the client's side: %w", err)
	}
	begun := time.Now()
	for {
		select {
		case _, open := <-c.lines:
			if open {
				continue
			}
			if err := c.cmd.Wait(); err != nil {
				return fmt.Errorf("the bridge ended badly after %s: %w", time.Since(begun), err)
			}
			c.cmd = nil
			return nil
		case <-ctx.Done():
			return fmt.Errorf("the bridge stays although its client is gone")
		}
	}
}

// kill ends the bridge of a demo that failed.
func (c *demoClient) kill() { killChild(c.cmd) }

func killChild(cmd *exec.Cmd) {
	if cmd == nil || cmd.Process == nil {
		return
	}
	_ = cmd.Process.Signal(os.Kill) // it may have ended by itself
	_ = cmd.Wait()                  // the failure is told already
}

// eventReader follows the app's events over its control socket.
type eventReader struct {
	conn   *singleton.Conn
	events chan status.Event
}

// watchEvents attaches to the app at dir. When it returns no event is missed any more.
func watchEvents(ctx context.Context, dir string) (*eventReader, error) {
	conn, _, err := singleton.Dial(ctx, dir, singleton.Hello{
		Protocol: singleton.Protocol, Role: singleton.RoleControl, Version: buildVersion(), PID: os.Getpid(),
	})
	if err != nil {
		return nil, fmt.Errorf("attaching to the app: %w", err)
	}
	reader := jsonrpc.NewReader(conn.R, 0)
	_, err = conn.Write(append(jsonrpc.NewRequest(1, "events", nil), '\n'))
	if err == nil {
		_, err = reader.Read() // the answer
	}
	if err != nil {
		_ = conn.Close() // the error tells more
		return nil, fmt.Errorf("asking for events: %w", err)
	}
	r := &eventReader{conn: conn, events: make(chan status.Event, 64)}
	go r.read(reader)
	return r, nil
}

// read passes events on; it ends with the connection.
func (r *eventReader) read(reader *jsonrpc.Reader) {
	defer close(r.events)
	for {
		line, err := reader.Read()
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(line)
		var event status.Event
		if err == nil && json.Unmarshal(m.Params.Of(m.Raw), &event) == nil {
			r.events <- event
		}
	}
}

// next waits for the next event of one of the names.
func (r *eventReader) next(ctx context.Context, names ...string) (status.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	for {
		select {
		case event, open := <-r.events:
			if !open {
				return event, fmt.Errorf("the app ended while %v was waited for", names)
			}
			if slices.Contains(names, event.Name) {
				return event, nil
			}
		case <-ctx.Done():
			return status.Event{}, fmt.Errorf("the event %v did not come", names)
		}
	}
}

// close ends it, and waits for what was on its way.
func (r *eventReader) close() {
	_ = r.conn.Close()   // the app has gone, or is of no interest any more
	for range r.events { // the rest nobody asked for
	}
}
