//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
	"mcp-funnel/singleton"
)

// control is a connection to the app's control socket. Asking is for one at a time.
type control struct {
	conn   net.Conn
	reader *jsonrpc.Reader
	mu     sync.Mutex
	lastID int64
}

func dialControl(ctx context.Context, dir string) (*control, error) {
	conn, _, err := singleton.Dial(ctx, dir, singleton.Hello{Role: singleton.RoleControl, Version: "faults"})
	if err != nil {
		return nil, fmt.Errorf("attaching to the app: %w", err)
	}
	return &control{conn: conn, reader: jsonrpc.NewReader(conn.R, 0)}, nil
}

func (c *control) close() { _ = c.conn.Close() } // nothing is left to be lost

// ask sends a request and decodes its result into result, unless that is nil.
func (c *control) ask(ctx context.Context, method string, params, result any) error {
	encoded, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", method, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })()
	c.lastID++
	if _, err := c.conn.Write(append(jsonrpc.NewRequest(c.lastID, method, encoded), '\n')); err != nil {
		return fmt.Errorf("asking the app for %s: %w", method, err)
	}
	for {
		line, err := c.reader.Read()
		if err != nil {
			return fmt.Errorf("asking the app for %s: %w", method, errors.Join(err, context.Cause(ctx)))
		}
		m, err := jsonrpc.Parse(line)
		if err != nil || m.Kind != jsonrpc.Response {
			continue // a link message
		}
		if m.Error.Present() {
			return fmt.Errorf("the app refuses %s: %s", method, m.Error.Of(m.Raw))
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result.Of(m.Raw), result)
	}
}

// sight is an event and when it came here.
type sight struct {
	status.Event
	at time.Time
}

// watcher collects the app's events.
type watcher struct {
	control *control

	mu   sync.Mutex
	seen []sight
	// more is closed and replaced with each event.
	more chan struct{}
	// ended: the app is gone.
	ended bool
}

// watch begins to collect. When it returns no event is missed any more.
func watch(ctx context.Context, dir string) (*watcher, error) {
	c, err := dialControl(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := c.ask(ctx, "events", struct{}{}, nil); err != nil {
		c.close()
		return nil, err
	}
	w := &watcher{control: c, more: make(chan struct{})}
	go w.read()
	return w, nil
}

// read ends with the connection.
func (w *watcher) read() {
	for {
		line, err := w.control.reader.Read()
		at := time.Now()
		var s sight
		if err == nil {
			m, parseErr := jsonrpc.Parse(line)
			if parseErr != nil || json.Unmarshal(m.Params.Of(m.Raw), &s.Event) != nil {
				continue // a link message
			}
			s.at = at
		}
		w.mu.Lock()
		if err == nil {
			w.seen = append(w.seen, s)
		}
		w.ended = err != nil
		close(w.more)
		w.more = make(chan struct{})
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// mark is the place from which on an await looks.
func (w *watcher) mark() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

// count is how many events of that name came from mark on.
func (w *watcher) count(mark int, name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	count := 0
	for _, s := range w.seen[mark:] {
		if s.Name == name {
			count++
		}
	}
	return count
}

// await waits for the first event of that name from mark on; server "" is any.
func (w *watcher) await(ctx context.Context, mark int, name, server string) (sight, error) {
	for {
		w.mu.Lock()
		seen, more, ended := w.seen, w.more, w.ended
		w.mu.Unlock()
		for ; mark < len(seen); mark++ {
			if seen[mark].Name == name && (server == "" || seen[mark].Server == server) {
				return seen[mark], nil
			}
		}
		if ended {
			return sight{}, fmt.Errorf("the app ended before %s of %q came", name, server)
		}
		select {
		case <-more:
		case <-ctx.Done():
			return sight{}, fmt.Errorf("%s of %q did not come: %w", name, server, context.Cause(ctx))
		}
	}
}
