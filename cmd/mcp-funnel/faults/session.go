//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"mcp-funnel/core/jsonrpc"
)

// session is an MCP client at the end of a process's stdio: of a bridge, or of a
// server itself.
type session struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	// listChanged gets when tools/list_changed came, as long as there is room.
	listChanged chan time.Time

	mu      sync.Mutex
	lastID  int64
	waiting map[string]chan jsonrpc.Message
	ended   bool
}

// open starts the process and shakes hands.
func open(ctx context.Context, cmd *exec.Cmd) (*session, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	s := &session{cmd: cmd, in: in, listChanged: make(chan time.Time, 64), waiting: make(map[string]chan jsonrpc.Message)}
	go s.read(out)
	const hello = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"faults","version":"1"}}`
	if _, err := s.request(ctx, "initialize", hello); err != nil {
		s.close()
		return nil, fmt.Errorf("shaking hands: %w", err)
	}
	if _, err := s.in.Write(append(jsonrpc.NewNotification("notifications/initialized", nil), '\n')); err != nil {
		s.close()
		return nil, fmt.Errorf("shaking hands: %w", err)
	}
	return s, nil
}

// read ends with the process.
func (s *session) read(out io.Reader) {
	reader := jsonrpc.NewReader(out, 0)
	for {
		line, err := reader.Read()
		if err != nil {
			break
		}
		m, err := jsonrpc.Parse(line)
		switch {
		case err != nil: // noise
		case m.Kind == jsonrpc.Response:
			s.mu.Lock()
			id := string(m.ID.Of(m.Raw))
			answer := s.waiting[id]
			delete(s.waiting, id)
			s.mu.Unlock()
			if answer != nil {
				answer <- m.Clone()
			}
		case m.MethodName() == "notifications/tools/list_changed":
			select {
			case s.listChanged <- time.Now():
			default:
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, answer := range s.waiting {
		close(answer)
	}
	s.waiting = nil
}

// begin sends a request and returns where its answer will be; a closed channel is
// the end of the process.
func (s *session) begin(method, params string) (<-chan jsonrpc.Message, error) {
	answer := make(chan jsonrpc.Message, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, fmt.Errorf("%s: the other side has ended", method)
	}
	s.lastID++
	s.waiting[strconv.FormatInt(s.lastID, 10)] = answer
	if _, err := s.in.Write(append(jsonrpc.NewRequest(s.lastID, method, []byte(params)), '\n')); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return answer, nil
}

// answerError is the error that a request was answered with.
type answerError struct{ text string }

func (e *answerError) Error() string { return e.text }

// request sends a request and waits for its result. An error that it is answered
// with is an [*answerError].
func (s *session) request(ctx context.Context, method, params string) (json.RawMessage, error) {
	answer, err := s.begin(method, params)
	if err != nil {
		return nil, err
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return nil, fmt.Errorf("%s: the other side ended", method)
		case m.Error.Present():
			return nil, &answerError{string(m.Error.Of(m.Raw))}
		}
		return m.Result.Of(m.Raw), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: no answer: %w", method, context.Cause(ctx))
	}
}

// call calls a tool without arguments and returns the text of its answer.
func (s *session) call(ctx context.Context, tool string) (string, error) {
	return s.callWith(ctx, tool, "{}")
}

// callWith calls a tool.
func (s *session) callWith(ctx context.Context, tool, arguments string) (string, error) {
	raw, err := s.request(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	if err != nil {
		return "", err
	}
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(raw, &result); err != nil || len(result.Content) == 0 {
		return "", fmt.Errorf("tools/call: cannot make sense of %s", raw)
	}
	if result.IsError {
		return "", &answerError{result.Content[0].Text}
	}
	return result.Content[0].Text, nil
}

// close ends the session as clients do, and joins the process.
func (s *session) close() {
	_ = s.in.Close()
	stop := time.AfterFunc(3*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer stop.Stop()
	_ = s.cmd.Wait() // how it ends is not what is tried here
}
