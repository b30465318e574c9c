package bridge

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"mcp-funnel/core/jsonrpc"
)

// Link is an attachment to the app, after the hello.
type Link struct {
	io.WriteCloser
	// R is the reading side.
	R *bufio.Reader
}

// Dialer attaches to the app. start says whether an app may be started when none
// runs; otherwise the dialer waits for one. It blocks until it succeeds or ctx ends,
// or fails for good.
type Dialer func(ctx context.Context, start bool) (Link, error)

// Options is what a bridge works with.
type Options struct {
	// In and Out are the client's side. Nothing but MCP messages goes to Out.
	In  io.Reader
	Out io.Writer
	// Dial attaches to the app; NoStart keeps the bridge from starting one.
	Dial    Dialer
	NoStart bool
	Log     *slog.Logger
}

// Times.
const (
	// patience is how long a request waits for an app.
	patience = 5 * time.Second
	// replacePatience is how long it waits for the successor of an app that said
	// it would be replaced.
	replacePatience = 30 * time.Second
	// joinTime is how long the end of a bridge waits for a client that does not take
	// a line.
	joinTime = 50 * time.Millisecond
	// lastReplies is how long answers are still carried once the client closed
	// its side.
	lastReplies = 80 * time.Millisecond
	// handshakeTime bounds the replayed handshake with a new app.
	handshakeTime = 10 * time.Second
	// retryPause lies between attempts to attach that failed for good.
	retryPause = time.Second
)

// errClientGone is the regular end of a bridge.
var errClientGone = errors.New("the client closed its side")

// Run carries messages until the client closes its side or ctx ends; it never ends
// because of the app. It returns nil then.
func Run(ctx context.Context, o Options) error {
	b := &bridge{
		options: o,
		log:     o.Log,
		need:    make(chan struct{}, 1),
		idle:    make(chan struct{}, 1),
		asked:   make(map[string]*request),
	}
	ctx, b.stop = context.WithCancelCause(ctx)
	attaching, reading := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(attaching)
		b.keepAttached(ctx)
	}()
	go func() {
		defer close(reading)
		b.readClient()
	}()
	select {
	case <-ctx.Done():
	case <-reading:
		b.carryLastReplies(ctx)
	}
	b.stop(errClientGone)
	b.detach()
	select {
	case <-attaching:
	case <-time.After(joinTime):
	}
	return nil
}

// bridge is the state of a running bridge.
type bridge struct {
	options Options
	log     *slog.Logger
	stop    context.CancelCauseFunc
	// need has room for one token: there is reason to attach.
	need chan struct{}
	// idle gets a token whenever the last request got its reply.
	idle chan struct{}

	// outMu serialises lines to the client.
	outMu sync.Mutex
	// current is link, for those who must close it while somebody is stuck in
	// writing to it under mu.
	current atomic.Pointer[Link]

	mu sync.Mutex
	// link is the attachment, nil while there is none. It is written to under mu:
	// the app reads at any time.
	link *Link
	// greeting and greeted are the client's initialize and initialized, kept to
	// be said again to another app; welcomed: an app has answered the first.
	greeting, greeted []byte
	greetingID        string
	welcomed          bool
	// asked are the client's requests without a reply, by id; held what waits for
	// an attachment, in order.
	asked map[string]*request
	held  []*request
	// bye is what the app said before it ended, "" without a word.
	bye string
}

// request is a line of the client that waits: for the app, or for its reply.
type request struct {
	// id is as on the wire; "" for a notification.
	id     string
	method string
	line   []byte
	// sent: an app may have got it.
	sent bool
	// timer refuses it when no app comes.
	timer *time.Timer
}

// readClient takes the client's lines until there are no more.
func (b *bridge) readClient() {
	reader := jsonrpc.NewReader(b.options.In, 0)
	for {
		line, err := reader.Read()
		var long *jsonrpc.TooLongError
		switch {
		case errors.As(err, &long):
			b.refuse(long.ID(), jsonrpc.CodeInvalidRequest, long.Error())
		case err != nil:
			return
		default:
			b.fromClient(line)
		}
	}
}

// carryLastReplies gives the app a moment to answer what was asked just before the
// client closed its side, as scripts do.
func (b *bridge) carryLastReplies(ctx context.Context) {
	timer := time.NewTimer(lastReplies)
	defer timer.Stop()
	for {
		b.mu.Lock()
		open := len(b.asked)
		b.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-b.idle:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// toClient writes one line. When the client does not take it the bridge has
// nothing left to do.
func (b *bridge) toClient(line []byte) {
	b.outMu.Lock()
	defer b.outMu.Unlock()
	if _, err := b.options.Out.Write(append(line, '\n')); err != nil {
		b.stop(fmt.Errorf("writing to the client: %w", err))
	}
}

func (b *bridge) refuse(id []byte, code int, message string) {
	b.toClient(jsonrpc.NewError(id, &jsonrpc.Error{Code: code, Message: message}))
}

// fromClient sends one line on, or holds it until there is an app.
func (b *bridge) fromClient(line []byte) {
	m, err := jsonrpc.Parse(line)
	if err != nil {
		if invalid, ok := errors.AsType[*jsonrpc.InvalidError](err); ok {
			b.refuse(invalid.ID, jsonrpc.CodeInvalidRequest, err.Error())
		} else {
			b.refuse(nil, jsonrpc.CodeParseError, err.Error())
		}
		return
	}
	r := &request{method: m.MethodName(), line: line}
	if m.Kind == jsonrpc.Request {
		r.id = string(m.ID.Of(m.Raw))
		if b.answers(r) {
			return
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch r.method {
	case "initialize":
		b.greeting, b.greetingID = line, r.id
	case "notifications/initialized":
		b.greeted = line
	case "notifications/cancelled":
		if b.withdraw(m) {
			return
		}
	}
	if r.id != "" {
		b.asked[r.id] = r
	}
	if b.link == nil {
		b.hold(r)
		return
	}
	b.write(r)
}

// answers replies to what needs no app: the look for a newer wire, with which some
// clients start a process just to throw it away, and a ping without an attachment.
func (b *bridge) answers(r *request) bool {
	b.mu.Lock()
	attached := b.link != nil
	b.mu.Unlock()
	switch {
	case attached:
		return false
	case r.method == "server/discover":
		b.refuse([]byte(r.id), jsonrpc.CodeMethodNotFound, `method "server/discover" is not known here`)
		return true
	case r.method == "ping":
		b.toClient(jsonrpc.NewResult([]byte(r.id), []byte("{}")))
		return true
	}
	return false
}

// withdraw drops a held request that the client cancels; it gets no reply. b.mu is
// held.
func (b *bridge) withdraw(m jsonrpc.Message) bool {
	span, ok := jsonrpc.Lookup(m.Raw, m.Params, "requestId")
	if !ok {
		return false
	}
	id := string(span.Of(m.Raw))
	r := b.asked[id]
	if r == nil {
		return false
	}
	delete(b.asked, id) // no reply any more, whether it was sent or not
	return b.unhold(r)
}

// hold keeps r for the next attachment. b.mu is held.
func (b *bridge) hold(r *request) {
	b.held = append(b.held, r)
	wait := patience
	if b.bye == "replace" {
		wait = replacePatience
	}
	if r.id != "" && r.method != "initialize" {
		r.timer = time.AfterFunc(wait, func() { b.giveUp(r) })
	}
	b.wantLink()
}

func (b *bridge) wantLink() {
	select {
	case b.need <- struct{}{}:
	default:
	}
}

// unhold takes r out of the held ones; false when it is not among them. b.mu is held.
func (b *bridge) unhold(r *request) bool {
	for i, other := range b.held {
		if other == r {
			b.held = append(b.held[:i:i], b.held[i+1:]...)
			if r.timer != nil {
				r.timer.Stop()
			}
			return true
		}
	}
	return false
}

// giveUp refuses a request for which no app came.
func (b *bridge) giveUp(r *request) {
	b.mu.Lock()
	held := b.unhold(r)
	if held {
		delete(b.asked, r.id)
	}
	b.mu.Unlock()
	if held {
		b.refuse([]byte(r.id), jsonrpc.CodeServerError,
			"MCP Funnel does not run, and so nothing was called. Start it (`mcp-funnel`), then try again; this session need not be restarted")
		b.noteIdle()
	}
}

// write sends r to the app. When that fails the app is lost, which its reader will
// see: it must then be assumed that r arrived. b.mu is held.
func (b *bridge) write(r *request) {
	r.sent = true
	if _, err := b.link.Write(append(r.line, '\n')); err != nil {
		b.log.Debug("writing to the app failed", "method", r.method, "err", err)
		_ = b.link.Close() // wakes the reader
	}
}

// fromApp takes one line of the app.
func (b *bridge) fromApp(line []byte) {
	if bytes.HasPrefix(line, []byte(`{"mcp-funnel":`)) {
		b.fromLink(line)
		return
	}
	m, err := jsonrpc.Parse(line)
	if err == nil && m.Kind == jsonrpc.Response && !b.answered(string(m.ID.Of(m.Raw))) {
		return // cancelled, or given up
	}
	b.toClient(line)
	if err == nil && m.Kind == jsonrpc.Response {
		b.noteIdle()
	}
}

// answered notes that the request with that id has its reply.
func (b *bridge) answered(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.asked[id]
	if r == nil {
		return id == "null"
	}
	delete(b.asked, id)
	if r.method == "initialize" {
		b.welcomed = true
	}
	return true
}

func (b *bridge) noteIdle() {
	select {
	case b.idle <- struct{}{}:
	default:
	}
}

// fromLink takes a message of the app to the bridge itself.
func (b *bridge) fromLink(line []byte) {
	span, ok := jsonrpc.Lookup(line, jsonrpc.Whole(line), "bye")
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bye, _ = jsonrpc.Unquote(span.Of(line))
}
