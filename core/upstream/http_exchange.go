package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// mediaEvents and mediaJSON are the two forms in which a server may answer.
const (
	mediaEvents = "text/event-stream"
	mediaJSON   = "application/json"
)

// httpReply is the answer to an HTTP request.
type httpReply struct {
	*http.Response
	// inSession: the request named a session that the server gave us.
	inSession bool
}

func (p httpReply) ok() bool { return p.StatusCode/100 == 2 }

func (p httpReply) media() string {
	media, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
	return media
}

// read takes the whole body; it fails when that is longer than limit.
func (p httpReply) read(limit int) ([]byte, error) {
	var body bytes.Buffer
	if size := p.ContentLength; size > 0 && size <= int64(limit) {
		body.Grow(int(size) + bytes.MinRead)
	}
	_, err := body.ReadFrom(io.LimitReader(p.Body, int64(limit)+1))
	if err == nil && body.Len() > limit {
		err = &jsonrpc.TooLongError{Limit: limit}
	}
	return body.Bytes(), err
}

// close gives the connection up unless the body was read to its end.
func (p httpReply) close() { _ = p.Body.Close() } // only read from

// exchange is a request and the way to its answer.
type exchange struct {
	id      int64
	message jsonrpc.Message
	// gated: it has to wait for ready.
	gated bool
	abort context.CancelCauseFunc
}

// startExchange sends a request. t.mu is held.
func (t *streamable) startExchange(m jsonrpc.Message) error {
	id, ok := parseID(m.ID.Of(m.Raw))
	if !ok {
		return fmt.Errorf("sending %s: its id is not a number", m.MethodName())
	}
	if err := t.admit(m); err != nil {
		return err
	}
	ctx, abort := context.WithCancelCause(t.life)
	x := &exchange{id: id, message: m, gated: t.gated, abort: abort}
	t.inFlight[id] = abort
	t.work.Go(func() { t.run(ctx, x) })
	return nil
}

// run brings the answer of x to the sink, or why there is none.
func (t *streamable) run(ctx context.Context, x *exchange) {
	defer x.abort(nil)
	err := t.perform(ctx, x)
	t.mu.Lock()
	delete(t.inFlight, x.id)
	t.mu.Unlock()
	if err == nil || errors.Is(context.Cause(ctx), errWithdrawn) {
		return // answered, or nobody waits any more
	}
	t.sink.Failed(x.id, err)
	if endsConnection(err) {
		t.finish(err)
	}
}

// perform returns nil once the answer is delivered.
func (t *streamable) perform(ctx context.Context, x *exchange) error {
	if x.gated {
		t.waitReady(ctx)
	}
	p, err := t.post(ctx, x.message.Raw)
	if err != nil {
		return err
	}
	defer p.close()
	if p.ok() && x.message.MethodName() == string(mcp.MethodInitialize) {
		t.mu.Lock()
		t.session = p.Header.Get(mcp.HeaderSessionID)
		t.mu.Unlock()
	}
	switch {
	case !p.ok():
		return t.refused(x.id, p)
	case p.StatusCode == http.StatusAccepted || p.StatusCode == http.StatusNoContent:
		return t.foreign("accepted the request without answering it (HTTP status %d)", p.StatusCode)
	case p.media() == mediaEvents:
		return t.readStream(ctx, x, p)
	}
	return t.readBody(ctx, x, p)
}

// readBody delivers the answer that is the whole body.
func (t *streamable) readBody(ctx context.Context, x *exchange, p httpReply) error {
	body, err := p.read(t.limit)
	if err != nil {
		return t.cutShort(ctx, err)
	}
	m, err := jsonrpc.Parse(onOneLine(body))
	switch {
	case len(body) == 0:
		return t.foreign("sent an empty answer (HTTP status %d)", p.StatusCode)
	case err != nil:
		return t.foreign("answered with what is no message: %s (%v)", t.excerpt(body), err)
	case isAnswerTo(m, x.id):
		t.sink.Receive(m, x.id)
		return nil
	case m.Error.Present():
		return t.failure(newerOnly(m, errorOf(m)), "answered with an error that names no request: %v", newerOnly(m, errorOf(m)))
	}
	return t.failure(nil, "answered something else than what was asked: %s", t.excerpt(body))
}

// parseEvent reads the data of an event. What is no message is skipped.
func (b *httpBase) parseEvent(data []byte) (jsonrpc.Message, bool) {
	m, err := jsonrpc.Parse(onOneLine(data))
	if err != nil {
		b.strange(fmt.Errorf("an event is skipped: %w", err))
	}
	return m, err == nil
}

// strange notes what a server does that it should not, and no call suffers from.
func (b *httpBase) strange(err error) {
	b.endpoint.Logger.Debug("a server does not do what was expected", "server", b.endpoint.Server, "err", err)
}

// isAnswerTo reports whether m is the response to the request with that id.
func isAnswerTo(m jsonrpc.Message, id int64) bool {
	if m.Kind != jsonrpc.Response {
		return false
	}
	theirs, ok := parseID(m.ID.Of(m.Raw))
	return ok && theirs == id
}

// onOneLine makes spaces of line ends. They stand between the tokens of JSON
// only, and messages are framed by lines on their way to clients.
func onOneLine(message []byte) []byte {
	message = bytes.TrimSpace(message)
	for _, end := range []byte{'\n', '\r'} {
		for at := bytes.IndexByte(message, end); at >= 0; {
			message[at] = ' '
			next := bytes.IndexByte(message[at:], end)
			if next < 0 {
				break
			}
			at += next
		}
	}
	return message
}

// refused takes an answer that is not of the 2xx: the server's own JSON-RPC error
// for the request with that id, which is delivered, or a failure.
func (b *httpBase) refused(id int64, p httpReply) error {
	body, _ := p.read(b.limit) // where it breaks off the status says enough
	m, err := jsonrpc.Parse(onOneLine(body))
	own := err == nil && isAnswerTo(m, id) && m.Error.Present()
	switch {
	case !own, !b.greeted() && (authStatus(p.StatusCode) || busyStatus(p.StatusCode)), sessionLost(p, body, own):
		return b.refusal(p, body, own)
	}
	b.sink.Receive(m, id)
	return nil
}
