package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"mcp-funnel/core/jsonrpc"
)

// The pause before a stream that ended without the answer is opened again: where the
// server asks for none, and the shortest one.
const (
	resumePause      = time.Second
	resumeLeastPause = 10 * time.Millisecond
)

// readStream delivers everything that comes on the stream with the answer to x. A server
// that numbers its events may end the stream before, as often as it likes, and goes on
// in the next one (MCP 2025-11-25, "Sending Messages to the Server" and "Resumability
// and Redelivery"); the request itself is never sent twice.
func (t *streamable) readStream(ctx context.Context, x *exchange, p httpReply) error {
	var at position
	for {
		answered, err := t.readEvents(ctx, x, p, &at)
		_, long := errors.AsType[*jsonrpc.TooLongError](err)
		switch {
		case answered:
			return nil
		case at.id == "" || long || ctx.Err() != nil:
			return err
		}
		if p, err = t.resume(ctx, at, err); err != nil {
			return err
		}
	}
}

// readEvents delivers what comes on one stream until it ends, and moves at along.
func (t *streamable) readEvents(ctx context.Context, x *exchange, p httpReply, at *position) (answered bool, err error) {
	defer p.close()
	events := newEventReader(p.Body, t.limit)
	events.position = *at
	defer func() { *at = events.position }()
	leave := time.AfterFunc(trailGrace, func() { x.abort(errAnswered) })
	leave.Stop() // until there is an answer
	defer leave.Stop()
	for {
		data, err := events.next()
		switch {
		case err != nil && answered:
			return true, nil
		case errors.Is(err, io.EOF):
			return false, t.failure(err, "ended its stream without an answer")
		case err != nil:
			return false, t.cutShort(ctx, err)
		}
		m, ok := t.parseEvent(data)
		if !ok {
			continue
		}
		if m.Kind == jsonrpc.Response {
			if answered || !isAnswerTo(m, x.id) {
				t.strange(fmt.Errorf("a response on the stream of request %d is dropped", x.id))
				continue
			}
			answered = true
			leave.Reset(trailGrace)
		}
		t.sink.Receive(m, x.id)
	}
}

// resume opens a stream that goes on at a position. Where the server has none it fails with
// ended, which is why the one before ended.
func (t *streamable) resume(ctx context.Context, at position, ended error) (httpReply, error) {
	pause := resumePause
	if at.retry > 0 {
		pause = min(max(at.retry, resumeLeastPause), listenLastPause)
	}
	timer := time.NewTimer(pause)
	select {
	case <-timer.C:
	case <-ctx.Done():
		timer.Stop()
		return httpReply{}, context.Cause(ctx)
	}
	p, err := t.doAfter(ctx, http.MethodGet, nil, at.id)
	if err != nil || p.StatusCode == http.StatusOK && p.media() == mediaEvents {
		return p, err
	}
	defer p.close()
	body, _ := p.read(t.limit) // the status says enough
	refusal := t.refusal(p, body, false)
	if _, lost := errors.AsType[*SessionLostError](refusal); lost {
		return httpReply{}, refusal
	}
	t.strange(fmt.Errorf("a stream does not go on: %w", refusal))
	return httpReply{}, ended
}
