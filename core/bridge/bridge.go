package bridge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"mcp-funnel/core/handshake"
	"mcp-funnel/core/jsonrpc"
)

// Link is an attachment to the app, after the hello.
type Link struct {
	io.WriteCloser
	// R is the reading side.
	R *bufio.Reader
}

// Dialer attaches to the app. start says whether an app may be started when none
// runs; otherwise the dialer waits for one. resume is what the last app said about
// this session, "" at first. It blocks until it succeeds or ctx ends, or fails for
// good.
type Dialer func(ctx context.Context, start bool, resume string) (Link, error)

// Options is what a bridge works with.
type Options struct {
	// In and Out are the client's side. Nothing but MCP messages goes to Out.
	In  io.Reader
	Out io.Writer
	// Dial attaches to the app; NoStart keeps the bridge from starting one.
	Dial    Dialer
	NoStart bool
	// Version is that of this program.
	Version string
	// Instructions are those for the model as they were known last; nil: none.
	Instructions func() string
	Log          *slog.Logger
}

// Times.
const (
	// joinTime is how long the end of a bridge waits for a client that does not take
	// a line.
	joinTime = 50 * time.Millisecond
	// lastReplies is how long answers are still carried once the client closed
	// its side.
	lastReplies = 80 * time.Millisecond
)

// maxBacklog bounds the bytes that wait for an app: to come, or to read.
const maxBacklog = 64 << 20

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
		burst:   new(jsonrpc.Burst),
		asked:   make(map[string]*request),
		lists:   make(map[string][]byte),
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
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release() // nobody waits for an answer any more
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
	// burst lets lines that come together leave together.
	burst *jsonrpc.Burst

	// outMu serialises lines to the client; out gathers them.
	outMu sync.Mutex
	out   jsonrpc.Batch
	// open is the number of asked, for those who must not wait for mu.
	open atomic.Int64

	mu sync.Mutex
	// app is the attachment, nil while there is none.
	app *attachment
	// greeting and greeted are the client's initialize and initialized, kept to
	// be said to every app.
	greeting, greeted []byte
	greetingID        string
	// asked are the client's requests without a reply, by id; held what waits for
	// an attachment, in order.
	asked     map[string]*request
	lastAsked int64
	held      []*request
	heldSize  int // bytes in held
	denials   []denial
	// lists are the last results of the list methods, by method; unfounded: one was
	// answered without any.
	lists     map[string][]byte
	unfounded map[string]bool
	// resume is what the last app said about this session.
	resume string
	// bye is what the app said before it ended, "" without a word; awaited: an
	// attempt to attach was made since.
	bye     string
	awaited bool
	// trouble is why the last attempt to attach failed; nil after one that did not.
	trouble error
}

// readClient takes the client's lines until there are no more.
func (b *bridge) readClient() {
	reader := jsonrpc.NewReader(b.options.In, 0)
	// How reading ended does not matter: there is no client any more.
	_ = b.burst.Lines(reader, func() error {
		line, err := reader.Read()
		long, tooLong := errors.AsType[*jsonrpc.TooLongError](err)
		switch {
		case tooLong:
			b.refuse(long.ID(), jsonrpc.CodeInvalidRequest, long.Error())
		case err != nil:
			return err
		default:
			b.fromClient(line)
		}
		return nil
	})
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

// fromClient answers one line, sends it on, or holds it until there is an app. The
// line is the bridge's own.
func (b *bridge) fromClient(line []byte) {
	m, err := jsonrpc.Parse(line)
	switch {
	case err != nil:
		b.toClient(jsonrpc.NewRefusal(err))
	case m.Kind == jsonrpc.Request:
		b.requested(m)
	case m.Kind == jsonrpc.Response:
		b.mu.Lock()
		defer b.unlock()
		id := string(m.ID.Of(m.Raw))
		if b.app != nil && b.app.questions[id] { // else the app that asked is gone
			delete(b.app.questions, id)
			b.write(&request{line: line})
		}
	default:
		b.notified(m)
	}
}

// requested takes a request of the client.
func (b *bridge) requested(m jsonrpc.Message) {
	r := &request{id: string(m.ID.Of(m.Raw)), method: m.MethodName(), line: m.Raw}
	switch r.method {
	case "initialize":
		b.greet(m, r)
		return
	case "ping":
		b.toClient(jsonrpc.NewResult([]byte(r.id), []byte("{}")))
		return
	case "server/discover":
		// Some clients look for a newer wire with a process that they throw away:
		// no app is started for that.
		b.refuse([]byte(r.id), jsonrpc.CodeMethodNotFound, `method "server/discover" is not known here`)
		return
	}
	b.mu.Lock()
	defer b.unlock()
	_, paged := jsonrpc.Lookup(m.Raw, m.Params, "cursor")
	r.list = listMethod(r.method) && !paged
	b.lastAsked++
	r.number = b.lastAsked
	b.asked[r.id] = r
	b.open.Store(int64(len(b.asked)))
	if b.attached() {
		b.write(r)
	} else {
		b.hold(r)
	}
}

// greet answers initialize, which clients give little time, and sees to it that every
// app hears it.
func (b *bridge) greet(m jsonrpc.Message, r *request) {
	b.mu.Lock()
	b.greeting, b.greetingID, b.greeted = m.Raw, r.id, nil
	if b.attached() {
		b.write(r) // again; its answer, which nobody asked for, is dropped
	}
	b.wantLink()
	b.unlock()
	instructions := ""
	if b.options.Instructions != nil {
		instructions = b.options.Instructions()
	}
	b.toClient(jsonrpc.NewResult([]byte(r.id), handshake.Result(m, b.options.Version, instructions)))
}

// notified takes a notification of the client.
func (b *bridge) notified(m jsonrpc.Message) {
	b.mu.Lock()
	defer b.unlock()
	r := &request{method: m.MethodName(), line: m.Raw}
	switch r.method {
	case "notifications/initialized":
		b.greeted = m.Raw
		if b.app == nil {
			return // attaching says it
		}
	case "notifications/cancelled":
		if b.withdraw(m) {
			return
		}
		if b.app != nil { // also one that is about to end: it still has the request
			b.write(r)
		}
		return // without an app there is nothing to cancel
	}
	if b.attached() {
		b.write(r)
		return
	}
	b.hold(r)
}
