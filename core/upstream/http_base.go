package upstream

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// httpBase is what the transports over HTTP have in common: where the server is,
// what goes with every request to it, and the end of the connection. Its methods are
// those of [Transport] that do not differ.
type httpBase struct {
	endpoint Endpoint
	client   *http.Client
	// owned: client is not that of the endpoint, and ends with the connection.
	owned bool
	// target is where to, without user info; header goes with every request.
	target string
	header http.Header
	// peer is host:port, for people.
	peer string
	// otherKind says what to do when the server turns out to speak the other
	// transport; "" when that is tried anyway.
	otherKind string
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
	// version is what the handshake brought; "" before.
	version string
	// session is the id in a header by which a server of streams knows us, postTo the
	// address that one of the older kind gave us; "" before and without.
	session, postTo string
	// gated: notifications/initialized is on its way, the others wait for it.
	gated bool
	// backlog is how many bytes wait for the server to take them.
	backlog int
}

// newHTTPBase reads what the endpoint says. It reaches for no server.
func newHTTPBase(ctx context.Context, e Endpoint) (*httpBase, error) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		// What is wrong with it is not said: that text would show parts of it.
		return nil, errors.New("its url is not a complete http:// or https:// address: correct it in the config")
	}
	b := &httpBase{
		endpoint: e,
		client:   e.Client,
		header:   make(http.Header),
		peer:     hostPort(u),
		limit:    jsonrpc.MaxLine,
		ready:    make(chan struct{}),
		done:     make(chan struct{}),
	}
	if e.CAFile != "" {
		roots, err := readCAFile(e.CAFile)
		if err != nil {
			return nil, err
		}
		b.client, b.owned = newHTTPClient(roots), true
	}
	if u.User != nil {
		password, _ := u.User.Password()
		auth := http.Request{Header: b.header}
		auth.SetBasicAuth(u.User.Username(), password)
		u.User = nil
	}
	for name, value := range e.Headers {
		b.header.Set(name, strings.TrimSpace(value))
	}
	if b.header.Get("User-Agent") == "" {
		b.header.Set("User-Agent", "mcp-funnel")
	}
	b.target = u.String()
	b.life, b.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return b, nil
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

// httpAsk is one HTTP request to make.
type httpAsk struct {
	method string
	body   []byte
	// after is the id of the event behind which a stream is to go on; "" for a new one.
	after string
}

// do makes one HTTP request. What it fails with is fit for people.
func (b *httpBase) do(ctx context.Context, ask httpAsk) (httpReply, error) {
	b.mu.Lock()
	session, version, target := b.session, b.version, b.target
	if b.postTo != "" && ask.method == http.MethodPost {
		target = b.postTo
	}
	inSession := session != "" || b.postTo != ""
	b.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, ask.method, target, bytes.NewReader(ask.body))
	if err != nil {
		return httpReply{}, b.broken(err)
	}
	req.Header = b.header.Clone()
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	switch ask.method {
	case http.MethodPost:
		req.Header.Set("Accept", mediaJSON+", "+mediaEvents)
		req.Header.Set("Content-Type", mediaJSON)
	case http.MethodGet:
		req.Header.Set("Accept", mediaEvents)
		// A server that compresses may hold events back until a block is full.
		req.Header.Set("Accept-Encoding", "identity")
	}
	for name, value := range map[string]string{
		mcp.HeaderSessionID: session, mcp.HeaderProtocolVersion: version, headerLastEventID: ask.after,
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := b.client.Do(req) //nolint:bodyclose // who gets the reply closes it
	var redirect *redirectError
	switch {
	case err == nil:
		return httpReply{Response: resp, inSession: inSession}, nil
	case ctx.Err() != nil:
		return httpReply{}, context.Cause(ctx)
	case errors.As(err, &redirect):
		return httpReply{}, b.failure(redirect, "%s", redirect)
	}
	return httpReply{}, b.broken(err)
}

// headerLastEventID names the event behind which a stream is to go on.
const headerLastEventID = "Last-Event-ID"

// post sends a message that admit counted.
func (b *httpBase) post(ctx context.Context, message []byte) (httpReply, error) {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.backlog -= len(message)
	}()
	return b.do(ctx, httpAsk{method: http.MethodPost, body: message})
}

// admit counts the bytes of a message that is to be sent. It fails when nothing can
// be, or too much waits already. b.mu is held.
func (b *httpBase) admit(m jsonrpc.Message) error {
	if b.over != nil {
		return b.over
	}
	if b.backlog > 0 && b.backlog+len(m.Raw) > maxBacklog {
		return jsonrpc.ErrBacklog
	}
	b.backlog += len(m.Raw)
	return nil
}

// pass sends a notification or a response that was admitted. b.mu is held.
func (b *httpBase) pass(m jsonrpc.Message) {
	if mcp.MCPMethod(m.MethodName()) != mcp.MethodNotificationInitialized || b.gated {
		b.work.Go(func() { b.tell(m) })
		return
	}
	b.gated = true
	b.work.Go(func() {
		defer close(b.ready)
		b.tell(m)
	})
}

// tell posts a notification or a response. That it is refused concerns nobody;
// that it cannot be sent ends the connection.
func (b *httpBase) tell(m jsonrpc.Message) {
	ctx, cancel := context.WithTimeoutCause(b.life, ackTimeout, errNoAck)
	defer cancel()
	err := b.deliver(ctx, m)
	switch {
	case err == nil:
	case endsConnection(err):
		b.finish(err)
	default:
		b.endpoint.Logger.Debug("a server did not take a notification or a reply",
			"server", b.endpoint.Server, "method", m.MethodName(), "err", err)
	}
}

func (b *httpBase) deliver(ctx context.Context, m jsonrpc.Message) error {
	p, err := b.post(ctx, m.Raw)
	if err != nil {
		return err
	}
	defer p.close()
	if p.ok() {
		return nil
	}
	body, _ := p.read(b.limit) // where it breaks off the status says enough
	return b.refusal(p, body, false)
}

// waitReady waits until the server took notifications/initialized, or for the end of
// ctx, which the request that follows tells.
func (b *httpBase) waitReady(ctx context.Context) {
	select {
	case <-b.ready:
	case <-ctx.Done():
	}
}

// finish ends the connection; the first reason stays.
func (b *httpBase) finish(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over == nil {
		b.over = err
		close(b.done)
	}
}

// end joins all that the transport began, and reports whether the connection was
// alive before.
func (b *httpBase) end() (alive bool) {
	alive = b.Err() == nil
	b.finish(errStopped)
	b.cancel(errStopped)
	b.work.Wait()
	return alive
}

// release lets go of the connections of a client that nobody else has.
func (b *httpBase) release() {
	if b.owned {
		b.client.CloseIdleConnections()
	}
}

// greeted reports whether the handshake is over.
func (b *httpBase) greeted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.version != ""
}

// Unsent implements [Transport]: what becomes of each request its exchange tells.
func (b *httpBase) Unsent(int) bool { return false }

// Done implements [Transport].
func (b *httpBase) Done() <-chan struct{} { return b.done }

// Err implements [Transport].
func (b *httpBase) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}

// Mask implements [Transport].
func (b *httpBase) Mask(text string) string { return b.endpoint.Mask(text) }

// PID implements [Transport]; the process is somebody else's.
func (b *httpBase) PID() int { return 0 }

// StderrTail implements [Transport].
func (b *httpBase) StderrTail() string { return "" }
