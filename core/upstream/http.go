package upstream

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// Endpoint is a server reached over HTTP. All fields but Headers, CAFile and
// FallbackSSE are needed.
type Endpoint struct {
	Server string
	// URL is absolute, http or https. Its user info and its query are secret.
	URL string
	// Headers go with every request, to this server only; they are secret.
	Headers map[string]string
	// CAFile is the absolute path of a PEM file with certificates of authorities that
	// are trusted besides the system's; "" for none. It is read at each opening.
	CAFile string
	// FallbackSSE: a server that turns out not to speak Streamable HTTP is tried with
	// the older HTTP with SSE.
	FallbackSSE bool
	// Mask takes secrets out of what people get to read.
	Mask func(string) string
	// Client is shared by all endpoints; see [NewHTTPClient].
	Client *http.Client
	// Logger gets, at debug, what the server does wrong and calls survive.
	Logger *slog.Logger
}

// Times of the HTTP transport. What a server takes for the answer to a request
// is not among them: only its caller limits that.
const (
	// ackTimeout is how long a server may take to accept a notification, which
	// it answers before it acts on it.
	ackTimeout = 10 * time.Second
	// trailGrace is how long a stream may go on once it carried the answer.
	trailGrace = 5 * time.Second
	// endpointTimeout is how long a stream of the older kind may be open without saying
	// where messages go, which is the first it says.
	endpointTimeout = 10 * time.Second
	// deleteTimeout is what telling the end of the session may take.
	deleteTimeout = 2 * time.Second
)

// streamable is a [Transport] over HTTP (MCP 2025-11-25, "Streamable HTTP").
// Each request is an exchange of its own and its answer may be a stream, so the
// methods of the [Sink] are called from several goroutines at once; what comes
// on one stream is delivered in its order.
//
// It reads the streams itself, because libraries decode messages and encode them
// again, and bound how long an answer may take.
type streamable struct {
	*httpBase

	// inFlight aborts the exchange of a request that has no answer yet; mu guards it.
	inFlight map[int64]context.CancelCauseFunc
}

// openHTTP makes the transport for one attempt. It talks to nobody: an attempt is the
// exchange that initialize makes.
func openHTTP(ctx context.Context, e Endpoint) (Transport, error) {
	if e.FallbackSSE {
		return openFallback(ctx, e)
	}
	return openStreamable(ctx, e)
}

func openStreamable(ctx context.Context, e Endpoint) (*streamable, error) {
	base, err := newHTTPBase(ctx, e)
	if err != nil {
		return nil, err
	}
	if !e.FallbackSSE {
		base.otherKind = `if the server speaks the older HTTP with SSE, its type in the config is "sse"`
	}
	return &streamable{httpBase: base, inFlight: make(map[int64]context.CancelCauseFunc)}, nil
}

// Start implements [Transport].
func (t *streamable) Start(sink Sink) { t.sink = sink }

// Send implements [Transport].
func (t *streamable) Send(m jsonrpc.Message) (place int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.Kind == jsonrpc.Request {
		return 0, t.startExchange(m)
	}
	if err := t.admit(m); err != nil {
		return 0, err
	}
	if mcp.MCPMethod(m.MethodName()) != mcp.MethodNotificationCancelled {
		t.pass(m)
		return 0, nil
	}
	abort := t.abortOf(m)
	t.work.Go(func() {
		t.tell(m)
		abort(errWithdrawn)
	})
	return 0, nil
}

// abortOf finds the stream to close once the server was told that its request is
// cancelled. t.mu is held.
func (t *streamable) abortOf(cancelled jsonrpc.Message) context.CancelCauseFunc {
	span, _ := jsonrpc.Lookup(cancelled.Raw, cancelled.Params, "requestId")
	if id, ok := parseID(span.Of(cancelled.Raw)); ok && t.inFlight[id] != nil {
		return t.inFlight[id]
	}
	return func(error) {}
}

// Negotiated implements [Transport]. It also begins to listen for what the server
// sends without being asked.
func (t *streamable) Negotiated(version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version = version
	if t.over == nil {
		t.work.Go(func() { t.listen(t.life) })
	}
}

// Close implements [Transport]. A server whose connection ended by itself is not
// told: most often it is gone, and the next attempt waits for Close.
func (t *streamable) Close() {
	t.closing.Do(func() {
		if t.end() {
			t.endSession()
		}
		t.release()
	})
}

// endSession lets the server forget the session.
func (t *streamable) endSession() {
	if t.session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.life), deleteTimeout)
	defer cancel()
	p, err := t.do(ctx, httpAsk{method: http.MethodDelete})
	if err != nil {
		return // it forgets by itself, later
	}
	p.close()
}
