package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mcp-funnel/core/jsonrpc"
)

// eventStream is a [Transport] over the older HTTP with SSE (MCP 2024-11-05): one
// stream brings everything from the server, and says first to which address messages
// are posted. Everything the server sends is delivered in its order. When the stream
// ends, so does the connection.
//
// How long an answer takes is not limited, nor how long the stream is silent: whether
// somebody is there the pings of the owner find out.
type eventStream struct {
	*httpBase

	// located is closed when the server said where messages go.
	located chan struct{}
}

// openSSE makes the transport for one attempt. It talks to nobody before Start.
func openSSE(ctx context.Context, e Endpoint) (Transport, error) { return newEventStream(ctx, e) }

func newEventStream(ctx context.Context, e Endpoint) (*eventStream, error) {
	base, err := newHTTPBase(ctx, e)
	if err != nil {
		return nil, err
	}
	if !e.FallbackSSE {
		base.otherKind = `if the server speaks Streamable HTTP, its type in the config is "http"`
	}
	return &eventStream{httpBase: base, located: make(chan struct{})}, nil
}

// Start implements [Transport]. It opens the stream.
func (t *eventStream) Start(sink Sink) {
	t.sink = sink
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over == nil {
		t.work.Go(func() { t.finish(t.read(t.life)) })
	}
}

// Send implements [Transport].
func (t *eventStream) Send(m jsonrpc.Message) (place int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.Kind != jsonrpc.Request {
		if err := t.admit(m); err != nil {
			return 0, err
		}
		t.pass(m)
		return 0, nil
	}
	id, ok := parseID(m.ID.Of(m.Raw))
	if !ok {
		return 0, fmt.Errorf("sending %s: its id is not a number", m.MethodName())
	}
	if err := t.admit(m); err != nil {
		return 0, err
	}
	gated := t.gated
	t.work.Go(func() { t.ask(id, m, gated) })
	return 0, nil
}

// Negotiated implements [Transport].
func (t *eventStream) Negotiated(version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version = version
}

// Close implements [Transport]. That the stream ends tells the server.
func (t *eventStream) Close() {
	t.closing.Do(func() {
		t.end()
		t.release()
	})
}

// ask posts a request. Its answer comes on the stream; only that there will be none
// is told here.
func (t *eventStream) ask(id int64, m jsonrpc.Message, gated bool) {
	ctx, cancel := context.WithCancelCause(t.life)
	defer cancel(nil)
	err := t.hand(ctx, id, m, gated)
	if err == nil {
		return
	}
	t.sink.Failed(id, err)
	if endsConnection(err) {
		t.finish(err)
	}
}

// hand returns nil once the server took the request. A server may do so only when it
// has the answer.
func (t *eventStream) hand(ctx context.Context, id int64, m jsonrpc.Message, gated bool) error {
	select {
	case <-t.located:
	case <-ctx.Done(): // the post says so
	}
	if gated {
		t.waitReady(ctx)
	}
	p, err := t.post(ctx, m.Raw)
	if err != nil {
		return err
	}
	defer p.close()
	if !p.ok() {
		return t.refused(id, p)
	}
	t.drain(p)
	return nil
}

// drained is how many bytes of a body nobody needs are read, so that its connection
// can be used again.
const drained = 4 << 10

// drain reads the end of an acknowledgement, which a server may be slow to send.
func (t *eventStream) drain(p httpReply) {
	giveUp := time.AfterFunc(trailGrace, p.close)
	defer giveUp.Stop()
	_, _ = io.CopyN(io.Discard, p.Body, drained) // it does not matter what comes
}

// read delivers what comes on the stream, and returns why it is over.
func (t *eventStream) read(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, err := t.do(ctx, httpAsk{method: http.MethodGet})
	if err != nil {
		return err
	}
	defer p.close()
	switch {
	case !p.ok():
		body, _ := p.read(t.limit) // where it breaks off the status says enough
		return t.refusal(p, body, false)
	case p.media() != mediaEvents:
		return t.foreign("answered with %q where a stream of events was expected; is the url in its config the one for SSE?", p.media())
	}
	late := time.AfterFunc(endpointTimeout, func() { cancel(errNoEndpoint) })
	defer late.Stop()
	events := newEventReader(p.Body, t.limit)
	for {
		e, err := events.next()
		var long *jsonrpc.TooLongError
		switch {
		case errors.As(err, &long):
			t.skipped(long)
			continue
		case errors.Is(err, io.EOF):
			return t.failure(err, "ended its event stream")
		case err != nil:
			return t.streamBroke(ctx, err)
		}
		switch e.name {
		case eventEndpoint:
			late.Stop()
			if err := t.locate(p.Request.URL, string(e.data)); err != nil {
				return err
			}
		case "", "message":
			if m, ok := t.parseEvent(e.data); ok {
				t.sink.Receive(m, 0)
			}
		}
	}
}

// errNoEndpoint: a stream is open, and not one of the older HTTP with SSE.
var errNoEndpoint = errors.New("no endpoint event")

// streamBroke is why the stream is over when it was not ended.
func (t *eventStream) streamBroke(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errNoEndpoint):
		return t.foreign("opened an event stream that did not say within %s where messages go (an event named endpoint)", endpointTimeout)
	case cause != nil:
		return cause
	}
	return t.failure(err, "broke off its event stream: %v", err)
}

// skipped takes that a message was too long. Where that was the answer to a request,
// the request has none.
func (t *eventStream) skipped(long *jsonrpc.TooLongError) {
	if id, ok := parseID(long.ID()); ok {
		t.sink.Failed(id, t.failure(long, "sends too much: %v", long))
		return
	}
	t.strange(fmt.Errorf("an event is skipped: %w", long))
}

// locate takes where messages go, relative to the address of the stream.
func (t *eventStream) locate(stream *url.URL, endpoint string) error {
	target, err := resolveEndpoint(stream, endpoint)
	if err != nil {
		return t.failure(err, "%v", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.postTo == "" {
		close(t.located)
	}
	t.postTo = target
	return nil
}

// isLocated reports whether the server proved to be of this kind.
func (t *eventStream) isLocated() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.postTo != ""
}

// errBadEndpoint: what a server gave as the address for messages is none. It is not
// shown, for it may hold the session.
var errBadEndpoint = errors.New("wants messages sent to what is no address (its endpoint event)")

// resolveEndpoint makes the address for messages of what the server says, which leads
// to the same scheme, host and port as its stream: the headers of a request hold
// credentials.
func resolveEndpoint(stream *url.URL, endpoint string) (string, error) {
	reference, err := url.Parse(strings.TrimSpace(endpoint))
	if err != nil {
		return "", errBadEndpoint
	}
	target := stream.ResolveReference(reference)
	target.User, target.Fragment, target.RawFragment = nil, "", ""
	if target.Opaque != "" || target.Hostname() == "" {
		return "", errBadEndpoint
	}
	if origin(target) != origin(stream) {
		return "", fmt.Errorf("wants messages sent to %s, and credentials never go to another scheme, host or port: "+
			"if that is the right server, put its address into the config", origin(target))
	}
	return target.String(), nil
}
