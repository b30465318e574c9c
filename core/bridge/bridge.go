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
	// successorTime is how long only the successor of a replaced app is waited for,
	// before one is started.
	successorTime = 10 * time.Second
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

	// outMu serialises lines to the client; out gathers them.
	outMu sync.Mutex
	out   jsonrpc.Batch
	// current is link, for those who must close it while somebody is stuck in
	// writing to it under mu.
	current atomic.Pointer[Link]

	mu sync.Mutex
	// link is the attachment, nil while there is none. It is written to under mu:
	// the app reads at any time. toApp gathers lines for it.
	link  *Link
	toApp jsonrpc.Batch
	// greeting and greeted are the client's initialize and initialized, kept to
	// be said again to another app; welcomed: an app has answered the first.
	greeting, greeted []byte
	greetingID        string
	welcomed          bool
	// open is the number of asked, for those who must not wait for mu.
	open atomic.Int64
	// asked are the client's requests without a reply, by id; held what waits for
	// an attachment, in order.
	asked     map[string]*request
	lastAsked int64
	held      []*request
	// bye is what the app said before it ended, "" without a word; awaited: an
	// attempt to attach was made since.
	bye     string
	awaited bool
}

// request is a line of the client that waits: for the app, or for its reply.
type request struct {
	// id is as on the wire; "" for a notification.
	id     string
	method string
	// line is kept for as long as it may have to be sent later, or again.
	line []byte
	// number is its place in the order of all requests.
	number int64
	// sent: an app may have got it.
	sent bool
	// timer refuses it when no app comes.
	timer *time.Timer
}

// readClient takes the client's lines until there are no more.
func (b *bridge) readClient() {
	reader := jsonrpc.NewReader(b.options.In, 0)
	for {
		line, err := reader.Next()
		long, tooLong := errors.AsType[*jsonrpc.TooLongError](err)
		switch {
		case tooLong:
			b.refuse(long.ID(), jsonrpc.CodeInvalidRequest, long.Error())
		case err != nil:
			return
		default:
			b.fromClient(line)
		}
		if !reader.More() {
			b.flushToApp()
		}
	}
}

// carryLastReplies gives the app a moment to answer what was asked just before the
// client closed its side, as scripts do.
func (b *bridge) carryLastReplies(ctx context.Context) {
	timer := time.NewTimer(lastReplies)
	defer timer.Stop()
	for b.open.Load() > 0 {
		select {
		case <-b.idle:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// toClient writes one line.
func (b *bridge) toClient(line []byte) {
	b.gatherToClient(line)
	b.flushToClient()
}

// gatherToClient writes one line, soon; flushToClient has to follow. When the client
// does not take what is written, the bridge has nothing left to do.
func (b *bridge) gatherToClient(line []byte) {
	b.outMu.Lock()
	defer b.outMu.Unlock()
	if err := b.out.Add(b.options.Out, line); err != nil {
		b.stop(fmt.Errorf("writing to the client: %w", err))
	}
}

func (b *bridge) flushToClient() {
	b.outMu.Lock()
	defer b.outMu.Unlock()
	if err := b.out.Flush(b.options.Out); err != nil {
		b.stop(fmt.Errorf("writing to the client: %w", err))
	}
}

func (b *bridge) refuse(id []byte, code int, message string) {
	b.toClient(jsonrpc.NewError(id, &jsonrpc.Error{Code: code, Message: message}))
}

// fromClient sends one line on, or holds it until there is an app. The line is the
// reader's and is copied where it is kept. flushToApp has to follow.
func (b *bridge) fromClient(line []byte) {
	m, err := jsonrpc.Parse(line)
	if err != nil {
		b.toClient(jsonrpc.NewRefusal(err))
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
		b.greeting, b.greetingID = bytes.Clone(line), r.id
	case "notifications/initialized":
		b.greeted = bytes.Clone(line)
	case "notifications/cancelled":
		if b.withdraw(m) {
			return
		}
	}
	if r.id != "" {
		b.lastAsked++
		r.number = b.lastAsked
		b.asked[r.id] = r
		b.open.Store(int64(len(b.asked)))
	}
	if b.link == nil {
		r.line = bytes.Clone(line)
		b.hold(r)
		return
	}
	b.write(r)
	r.line = nil
	if r.repeatable() {
		r.line = bytes.Clone(line)
	}
}

// forget notes that the request with that id needs no reply any more. b.mu is held.
func (b *bridge) forget(id string) {
	delete(b.asked, id)
	b.open.Store(int64(len(b.asked)))
}

// repeatable reports whether r is sent again when nobody knows if it arrived: asking
// again changes nothing, but a call may.
func (r *request) repeatable() bool { return r.id != "" && r.method != "tools/call" }

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
	b.forget(id) // no reply any more, whether it was sent or not
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
		b.forget(r.id)
	}
	b.mu.Unlock()
	if held {
		b.refuse([]byte(r.id), jsonrpc.CodeServerError,
			"MCP Funnel does not run, and so nothing was called. Start it (`mcp-funnel`), then try again; this session need not be restarted")
		b.noteIdle()
	}
}

// write sends r to the app, soon; flushToApp has to follow. When that fails the app
// is lost, which its reader will see: it must then be assumed that r arrived. b.mu is
// held.
func (b *bridge) write(r *request) {
	r.sent = true
	b.wrote(b.toApp.Add(b.link, r.line))
}

// flushToApp sends what was gathered.
func (b *bridge) flushToApp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.link != nil {
		b.wrote(b.toApp.Flush(b.link))
	}
}

// wrote looks how writing to the app ended. b.mu is held.
func (b *bridge) wrote(err error) {
	if err != nil {
		b.log.Debug("writing to the app failed", "err", err)
		_ = b.link.Close() // wakes the reader
	}
}

// fromApp takes one line of the app. flushToClient has to follow.
func (b *bridge) fromApp(line []byte) {
	if isLinkMessage(line) {
		b.fromLink(line)
		return
	}
	if id, ok := jsonrpc.ReplyID(line); ok && !b.answered(id) {
		return // cancelled, or given up
	}
	b.gatherToClient(line)
}

// answered notes that the request with that id has its reply.
func (b *bridge) answered(id []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.asked[string(id)]
	if r == nil {
		return string(id) == "null"
	}
	b.forget(string(id))
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

// isLinkMessage tells what the app says to the bridge from messages for the client. A
// server may begin a reply in the same way, but that is JSON-RPC.
func isLinkMessage(line []byte) bool {
	if !bytes.HasPrefix(line, []byte(`{"mcp-funnel":`)) {
		return false
	}
	_, err := jsonrpc.Parse(line)
	_, foreign := errors.AsType[*jsonrpc.InvalidError](err)
	return foreign
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
