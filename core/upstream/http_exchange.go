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

// headerLastEventID says after which event a stream goes on.
const headerLastEventID = "Last-Event-ID"

// httpReply is the answer to an HTTP request.
type httpReply struct {
	*http.Response
	// session is the id that the request carried.
	session string
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

// do makes one HTTP request. What it fails with is fit for people.
func (t *streamable) do(ctx context.Context, method string, body []byte) (httpReply, error) {
	return t.doAfter(ctx, method, body, "")
}

// doAfter is do with the id of the event after which a stream goes on, "" for none.
func (t *streamable) doAfter(ctx context.Context, method string, body []byte, event string) (httpReply, error) {
	req, err := http.NewRequestWithContext(ctx, method, t.target, bytes.NewReader(body))
	if err != nil {
		return httpReply{}, t.broken(err)
	}
	req.Header = t.header.Clone()
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	switch method {
	case http.MethodPost:
		req.Header.Set("Accept", mediaJSON+", "+mediaEvents)
		req.Header.Set("Content-Type", mediaJSON)
	case http.MethodGet:
		req.Header.Set("Accept", mediaEvents)
		// A server that compresses may hold events back until a block is full.
		req.Header.Set("Accept-Encoding", "identity")
	}
	if event != "" {
		req.Header.Set(headerLastEventID, event)
	}
	t.mu.Lock()
	session, version := t.session, t.version
	t.mu.Unlock()
	if session != "" {
		req.Header.Set(mcp.HeaderSessionID, session)
	}
	if version != "" {
		req.Header.Set(mcp.HeaderProtocolVersion, version)
	}
	resp, err := t.endpoint.Client.Do(req) //nolint:bodyclose // who gets the reply closes it
	var redirect *redirectError
	switch {
	case err == nil:
		return httpReply{Response: resp, session: session}, nil
	case ctx.Err() != nil:
		return httpReply{}, context.Cause(ctx)
	case errors.As(err, &redirect):
		return httpReply{}, t.failure(redirect, "%s", redirect)
	}
	return httpReply{}, t.broken(err)
}

// post sends a message, whose bytes Send counted.
func (t *streamable) post(ctx context.Context, message []byte) (httpReply, error) {
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.backlog -= len(message)
	}()
	return t.do(ctx, http.MethodPost, message)
}

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
	ctx, abort := context.WithCancelCause(t.life)
	x := &exchange{id: id, message: m, gated: t.gated, abort: abort}
	t.inFlight[id] = abort
	t.backlog += len(m.Raw)
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
		select {
		case <-t.ready:
		case <-ctx.Done(): // the post says so
		}
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
		return t.refused(x, p)
	case p.StatusCode == http.StatusAccepted || p.StatusCode == http.StatusNoContent:
		return t.failure(nil, "accepted the request without answering it (HTTP status %d)", p.StatusCode)
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
		return t.failure(err, "sent an empty answer (HTTP status %d)", p.StatusCode)
	case err != nil:
		return t.failure(err, "answered with what is no message: %s (%v)", t.excerpt(body), err)
	case isAnswerTo(m, x.id):
		t.sink.Receive(m, x.id)
		return nil
	case m.Error.Present():
		return t.failure(nil, "answered with an error that names no request: %v", errorOf(m))
	}
	return t.failure(nil, "answered something else than what was asked: %s", t.excerpt(body))
}

// parseEvent reads the data of an event. What is no message is skipped.
func (t *streamable) parseEvent(data []byte) (jsonrpc.Message, bool) {
	m, err := jsonrpc.Parse(onOneLine(data))
	if err != nil {
		t.strange(fmt.Errorf("an event is skipped: %w", err))
	}
	return m, err == nil
}

// strange notes what a server does that it should not, and no call suffers from.
func (t *streamable) strange(err error) {
	t.endpoint.Logger.Debug("a server does not do what was expected", "server", t.endpoint.Server, "err", err)
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
// for x, which is delivered, or a failure.
func (t *streamable) refused(x *exchange, p httpReply) error {
	body, _ := p.read(t.limit) // where it breaks off the status says enough
	m, err := jsonrpc.Parse(onOneLine(body))
	own := err == nil && isAnswerTo(m, x.id) && m.Error.Present()
	switch {
	case !own, !t.greeted() && (authStatus(p.StatusCode) || busyStatus(p.StatusCode)), sessionLost(p, body, own):
		return t.refusal(p, body, own)
	}
	t.sink.Receive(m, x.id)
	return nil
}
