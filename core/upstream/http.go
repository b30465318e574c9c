package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// Endpoint is a server reached over HTTP. All fields but Headers are needed.
type Endpoint struct {
	Server string
	// URL is absolute, http or https. Its user info and its query are secret.
	URL string
	// Headers go with every request, to this server only; they are secret.
	Headers map[string]string
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
	endpoint Endpoint
	// target is where to, without user info; header goes with every request.
	target string
	header http.Header
	// peer is host:port, for people.
	peer string
	// limit is the longest message in bytes that is taken.
	limit int
	sink  Sink
	// life ends all requests; it is a field because it outlives every call.
	life   context.Context //nolint:containedctx // see above
	cancel context.CancelCauseFunc
	// ready is closed when the server took notifications/initialized. Servers
	// refuse requests that overtake it.
	ready   chan struct{}
	done    chan struct{}
	work    sync.WaitGroup
	closing sync.Once

	mu sync.Mutex
	// over is why nothing can be sent any more; work grows only while it is nil.
	over error
	// session and version are what initialize brought; "" before and without.
	session string
	version string
	// gated: notifications/initialized is on its way, the others wait for it.
	gated bool
	// inFlight aborts the exchange of a request that has no answer yet.
	inFlight map[int64]context.CancelCauseFunc
	// backlog is how many bytes wait for the server to take them.
	backlog int
}

// openHTTP makes the transport for one attempt. It does no I/O: an attempt is the
// exchange that initialize makes.
func openHTTP(ctx context.Context, e Endpoint) (Transport, error) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		// What is wrong with it is not said: that text would show parts of it.
		return nil, errors.New("its url is not a complete http:// or https:// address: correct it in the config")
	}
	t := &streamable{
		endpoint: e,
		header:   make(http.Header),
		peer:     hostPort(u),
		limit:    jsonrpc.MaxLine,
		ready:    make(chan struct{}),
		done:     make(chan struct{}),
		inFlight: make(map[int64]context.CancelCauseFunc),
	}
	if u.User != nil {
		password, _ := u.User.Password()
		auth := http.Request{Header: t.header}
		auth.SetBasicAuth(u.User.Username(), password)
		u.User = nil
	}
	for name, value := range e.Headers {
		t.header.Set(name, strings.TrimSpace(value))
	}
	if t.header.Get("User-Agent") == "" {
		t.header.Set("User-Agent", "mcp-funnel")
	}
	t.target = u.String()
	t.life, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return t, nil
}

// hostPort is where u leads to, with the port that its scheme implies.
func hostPort(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// Start implements [Transport].
func (t *streamable) Start(sink Sink) { t.sink = sink }

// Send implements [Transport].
func (t *streamable) Send(m jsonrpc.Message) (place int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over != nil {
		return 0, t.over
	}
	if t.backlog > 0 && t.backlog+len(m.Raw) > maxBacklog {
		return 0, jsonrpc.ErrBacklog
	}
	if m.Kind == jsonrpc.Request {
		return 0, t.startExchange(m)
	}
	t.backlog += len(m.Raw)
	switch method := mcp.MCPMethod(m.MethodName()); {
	case method == mcp.MethodNotificationInitialized && !t.gated:
		t.gated = true
		t.work.Go(func() {
			defer close(t.ready)
			t.tell(m)
		})
	case method == mcp.MethodNotificationCancelled:
		abort := t.abortOf(m)
		t.work.Go(func() {
			t.tell(m)
			abort(errWithdrawn)
		})
	default:
		t.work.Go(func() { t.tell(m) })
	}
	return 0, nil
}

// Unsent implements [Transport]: what becomes of each request its exchange tells.
func (t *streamable) Unsent(int) bool { return false }

// abortOf finds the stream to close once the server was told that its request is
// cancelled. t.mu is held.
func (t *streamable) abortOf(cancelled jsonrpc.Message) context.CancelCauseFunc {
	span, _ := jsonrpc.Lookup(cancelled.Raw, cancelled.Params, "requestId")
	if id, ok := parseID(span.Of(cancelled.Raw)); ok && t.inFlight[id] != nil {
		return t.inFlight[id]
	}
	return func(error) {}
}

// tell posts a notification or a response. That it is refused concerns nobody;
// that it cannot be sent ends the connection.
func (t *streamable) tell(m jsonrpc.Message) {
	ctx, cancel := context.WithTimeoutCause(t.life, ackTimeout, errNoAck)
	defer cancel()
	err := t.deliver(ctx, m)
	switch {
	case err == nil:
	case endsConnection(err):
		t.finish(err)
	default:
		t.endpoint.Logger.Debug("a server did not take a notification or a reply",
			"server", t.endpoint.Server, "method", m.MethodName(), "err", err)
	}
}

func (t *streamable) deliver(ctx context.Context, m jsonrpc.Message) error {
	p, err := t.post(ctx, m.Raw)
	if err != nil {
		return err
	}
	defer p.close()
	if p.ok() {
		return nil
	}
	body, _ := p.read(t.limit) // where it breaks off the status says enough
	return t.refusal(p, body, false)
}

// finish ends the connection; the first reason stays.
func (t *streamable) finish(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over == nil {
		t.over = err
		close(t.done)
	}
}

// Done implements [Transport].
func (t *streamable) Done() <-chan struct{} { return t.done }

// Err implements [Transport].
func (t *streamable) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
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

// greeted reports whether the handshake is over.
func (t *streamable) greeted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version != ""
}

// Mask implements [Transport].
func (t *streamable) Mask(text string) string { return t.endpoint.Mask(text) }

// PID implements [Transport]; the process is somebody else's.
func (t *streamable) PID() int { return 0 }

// StderrTail implements [Transport].
func (t *streamable) StderrTail() string { return "" }

// Close implements [Transport]. A server whose connection ended by itself is not
// told: most often it is gone, and the next attempt waits for Close.
func (t *streamable) Close() {
	t.closing.Do(func() {
		alive := t.Err() == nil
		t.finish(errStopped)
		t.cancel(errStopped)
		t.work.Wait()
		if alive {
			t.endSession()
		}
	})
}

// endSession lets the server forget the session.
func (t *streamable) endSession() {
	if t.session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.life), deleteTimeout)
	defer cancel()
	p, err := t.do(ctx, http.MethodDelete, nil)
	if err != nil {
		return // it forgets by itself, later
	}
	p.close()
}
