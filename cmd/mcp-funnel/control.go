package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/singleton"
)

const (
	// dialTimeout is how long the instance may take to greet.
	dialTimeout = 5 * time.Second
	// answerTimeout is how long it may take to answer, which it does from memory.
	answerTimeout = 10 * time.Second
	// aliveInterval is how often it is greeted anew while it takes its time. One
	// that has stopped is noticed within aliveInterval and dialTimeout.
	aliveInterval = 5 * time.Second
)

// silenceError says that the instance holds the connection and says nothing.
type silenceError struct{ after time.Duration }

func (e *silenceError) Error() string {
	return fmt.Sprintf("the running instance has not answered within %v; "+
		"if that goes on, \"mcp-funnel tray --replace\" takes over from it", e.after)
}

// errGone: the instance ended while we were connected, or has thrown us out.
var errGone = errors.New("the running instance has closed the connection")

// control is a connection to the running instance on which it is asked one thing
// after the other, in JSON-RPC 2.0. It belongs to one goroutine.
type control struct {
	conn   net.Conn
	lines  *jsonrpc.Reader
	lastID int64
}

// dialControl connects to the running instance. Where there is none, the error
// has the exit code for that.
func dialControl(ctx context.Context) (*control, error) {
	dir, err := singleton.RuntimeDir()
	if err != nil {
		return nil, err
	}
	// What a deleted working folder is called matters to nobody here.
	cwd, _ := os.Getwd()
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, &silenceError{dialTimeout})
	defer cancel()
	conn, _, err := singleton.Dial(ctx, dir, singleton.Hello{
		Protocol: singleton.Protocol, Role: singleton.RoleControl, Version: buildVersion(),
		PID: os.Getpid(), PPID: os.Getppid(), CWD: cwd,
	})
	switch {
	case err == nil:
		return newControl(conn, conn.R), nil
	case errors.Is(err, singleton.ErrNotRunning):
		return nil, errNotRunning()
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, err
}

// newControl speaks over conn, whose greetings are done. r reads from it.
func newControl(conn net.Conn, r io.Reader) *control {
	return &control{conn: conn, lines: jsonrpc.NewReader(r, 0)}
}

func errNotRunning() error {
	return &exitError{code: exitNotRunning, err: errors.New(
		"no instance is running; start one with \"mcp-funnel\", or with \"mcp-funnel serve\" for one without an icon")}
}

// close ends the connection.
func (c *control) close() { _ = c.conn.Close() } // nothing is left to be lost

// ask sends a request and returns its result. params nil stands for {}. An error
// the instance answers with is an [exitError].
func (c *control) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, &silenceError{answerTimeout})
	defer cancel()
	return c.exchange(ctx, method, params)
}

// askPatiently is ask for what may take as long as it likes. Meanwhile the
// instance is asked on other connections whether it is still there.
func (c *control) askPatiently(ctx context.Context, method string, params any) (json.RawMessage, error) {
	var watch sync.WaitGroup
	defer watch.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch.Go(func() { cancel(waitUntilGone(ctx)) })
	return c.exchange(ctx, method, params)
}

// waitUntilGone returns when ctx ends, or why the instance cannot be reached.
func waitUntilGone(ctx context.Context) error {
	ticks := time.NewTicker(aliveInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks.C:
		}
		c, err := dialControl(ctx)
		if err != nil {
			return err
		}
		c.close()
	}
}

// exchange sends a request and waits for its answer until ctx ends, after which
// the connection is of no more use.
func (c *control) exchange(ctx context.Context, method string, params any) (json.RawMessage, error) {
	encoded := []byte("{}")
	if params != nil {
		var err error
		if encoded, err = json.Marshal(params); err != nil {
			return nil, fmt.Errorf("writing the request: %w", err)
		}
	}
	c.lastID++
	defer c.interruptWith(ctx)()
	if _, err := c.conn.Write(append(jsonrpc.NewRequest(c.lastID, method, encoded), '\n')); err != nil {
		return nil, brokenBy(ctx, err)
	}
	for {
		m, err := c.read(ctx)
		if err != nil {
			return nil, err
		}
		if m.Kind == jsonrpc.Response && string(m.ID.Of(m.Raw)) == fmt.Sprint(c.lastID) {
			return answer(m)
		}
	}
}

// notification returns the params of the next notification.
func (c *control) notification(ctx context.Context) (json.RawMessage, error) {
	defer c.interruptWith(ctx)()
	for {
		m, err := c.read(ctx)
		if err != nil {
			return nil, err
		}
		if m.Kind == jsonrpc.Notification {
			return m.Params.Of(m.Raw), nil
		}
	}
}

// interruptWith makes reads and writes fail from the end of ctx on. stop must be
// called.
func (c *control) interruptWith(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		// A connection that has no deadlines any more fails by itself.
		_ = c.conn.SetDeadline(time.Unix(1, 0))
	})
}

// linkPrefix begins lines that are about the connection itself.
const linkPrefix = `{"mcp-funnel":`

// read returns the next message.
func (c *control) read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		line, err := c.lines.Read()
		if err != nil {
			return jsonrpc.Message{}, brokenBy(ctx, err)
		}
		if bytes.HasPrefix(line, []byte(linkPrefix)) {
			continue
		}
		m, err := jsonrpc.Parse(line)
		if err != nil {
			return jsonrpc.Message{}, fmt.Errorf("reading the answer of the running instance: %w", err)
		}
		return m, nil
	}
}

// brokenBy explains err, with which reading or writing failed: by why ctx ended, if
// it did, for that is what broke the connection, else by [errGone].
func brokenBy(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if _, tooLong := errors.AsType[*jsonrpc.TooLongError](err); tooLong {
		return fmt.Errorf("reading the answer of the running instance: %w", err)
	}
	return fmt.Errorf("%w: %w", errGone, err)
}

// answer is the result in a response, or its error with the exit code the
// instance wants, 1 unless the error's data says otherwise.
func answer(m jsonrpc.Message) (json.RawMessage, error) {
	if !m.Error.Present() {
		return m.Result.Of(m.Raw), nil
	}
	var refusal jsonrpc.Error
	if err := json.Unmarshal(m.Error.Of(m.Raw), &refusal); err != nil {
		return nil, fmt.Errorf("reading the error the running instance answered with: %w", err)
	}
	var data struct{ Exit int }
	if err := json.Unmarshal(refusal.Data, &data); err != nil || data.Exit <= 0 {
		data.Exit = exitFailed // the data is about something else, or there is none
	}
	return nil, &exitError{code: data.Exit, err: errors.New(refusal.Message)}
}

// askOnce connects, asks one thing and decodes the result into result, unless
// that is nil.
func askOnce(ctx context.Context, method string, params, result any) error {
	c, err := dialControl(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	raw, err := c.ask(ctx, method, params)
	if err != nil || result == nil {
		return err
	}
	return decode(raw, result)
}

// decode reads the result of a request.
func decode(raw json.RawMessage, result any) error {
	if err := json.Unmarshal(raw, result); err != nil {
		return fmt.Errorf("understanding the answer of the running instance, which may be of another version: %w", err)
	}
	return nil
}
