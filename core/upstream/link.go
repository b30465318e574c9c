package upstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// Request is a client's request on its way to a server.
type Request struct {
	// Message is the request as the client sent it, with the client's own id.
	Message jsonrpc.Message
	// Name replaces the value at NameAt in Message.Raw, the name of what the request
	// is about: a JSON string with quotes. nil leaves it.
	Name   []byte
	NameAt jsonrpc.Span
	// Label is the name the client used, for errors.
	Label string
	// Caller gets the reply.
	Caller Caller
	// From is the client session that asks; nil when it is none. Servers with instances
	// need it.
	From Session

	// withdrawn: the caller wants no reply any more.
	withdrawn atomic.Bool
	// until is how long it may wait for its server, and timer refuses it then. Both
	// belong to the upstream, under its mu.
	until time.Time
	timer *time.Timer
	// taken is the instance that got it, of a server that has several. It belongs to
	// that server, under its mu.
	taken *Upstream
}

// Caller is who made a [Request]. Its methods must not block; the bytes belong
// to it.
type Caller interface {
	// Reply takes the one reply, a complete message with the client's own id. It
	// is called exactly once, unless the request was cancelled.
	Reply(r *Request, reply []byte)
	// Progress takes a notifications/progress with the client's own token; never
	// after Reply.
	Progress(r *Request, notification []byte)
	// Tell takes another notification that belongs to a request of this caller.
	Tell(notification []byte)
	// Ask takes a server's request that this caller caused. It answers or refuses it,
	// once, at any time.
	Ask(q *Question)
	// Withdraw says that nobody waits for the answer to q any more.
	Withdraw(q *Question)
}

// fail replies to r with an error.
func (r *Request) fail(e *jsonrpc.Error) {
	r.Caller.Reply(r, jsonrpc.NewError(r.Message.ID.Of(r.Message.Raw), e))
}

// link speaks JSON-RPC over one [Transport]: it gives out ids, and knows who
// waits for which.
type link struct {
	name string
	// transport is set once, before anything is sent.
	transport Transport
	// again takes a request back that met the end of the connection and cannot have
	// run. It is set before the first request is forwarded.
	again func(*link, *Request)
	// listsChanged has room for one token: lists of the server changed, which stale
	// names.
	listsChanged chan struct{}
	// doubt has room for one token: a request was answered as if nobody were there.
	doubt chan struct{}
	// callTimeout ends a relayed call without progress; 0 never does.
	callTimeout time.Duration
	// logging: the server has a log whose level can be set.
	logging bool
	// news takes the notifications that belong to no request.
	news func(m jsonrpc.Message)
	// owner, if there is one, gives whoever all that comes unasked is for; it may give nil.
	owner func() Caller
	// received counts the messages that came.
	received atomic.Uint64

	mu      sync.Mutex
	lastID  int64
	waiting map[int64]*waiter
	// over is the reason why nothing can be sent any more.
	over  error
	stale kindSet
	// questions are the server's requests without an answer, by its id on the wire.
	questions map[string]*Question
}

// waiter is whoever waits for the reply to one id: a client's request, or one of
// our own.
type waiter struct {
	request *Request
	own     chan ownReply
	timeout *time.Timer
	// sent: the request was handed to the transport, and place is what that said.
	// late: the link ended before that; who sends concludes.
	sent, late bool
	place      int
}

type ownReply struct {
	message jsonrpc.Message
	err     error
}

func newLink(name string, callTimeout time.Duration) *link {
	return &link{
		name:         name,
		callTimeout:  callTimeout,
		listsChanged: make(chan struct{}, 1),
		doubt:        make(chan struct{}, 1),
		waiting:      make(map[int64]*waiter),
		questions:    make(map[string]*Question),
	}
}

// add registers w and returns its id.
func (l *link) add(w *waiter) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return 0, l.over
	}
	l.lastID++
	l.waiting[l.lastID] = w
	return l.lastID, nil
}

// remove takes the waiter for id out; nil when somebody else already did. Who
// gets it is the one who answers.
func (l *link) remove(id int64) *waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.waiting[id]
	delete(l.waiting, id)
	if w != nil && w.timeout != nil {
		w.timeout.Stop()
	}
	return w
}

// call sends a request of our own and waits for its result. An error of the
// server is a [*jsonrpc.Error].
func (l *link) call(ctx context.Context, method mcp.MCPMethod, params []byte) (jsonrpc.Message, error) {
	w := &waiter{own: make(chan ownReply, 1)}
	id, err := l.add(w)
	if err != nil {
		return jsonrpc.Message{}, err
	}
	if err := l.send(jsonrpc.NewRequest(id, string(method), params)); err != nil {
		l.remove(id)
		return jsonrpc.Message{}, l.explain(ctx, fmt.Errorf("sending %s: %w", method, err))
	}
	select {
	case reply := <-w.own:
		if reply.err != nil {
			return jsonrpc.Message{}, reply.err
		}
		return reply.message, errorOf(reply.message)
	case <-l.transport.Done():
		l.remove(id)
		return jsonrpc.Message{}, l.transport.Err()
	case <-ctx.Done():
		if l.remove(id) != nil && method != mcp.MethodInitialize {
			l.sendCancelled(id, nil)
		}
		return jsonrpc.Message{}, context.Cause(ctx)
	}
}

// explain finds out why a connection that could not be written to is over: its end
// tells more than the failure to write, and comes a moment later.
func (l *link) explain(ctx context.Context, err error) error {
	if !errors.Is(err, jsonrpc.ErrClosed) {
		return err
	}
	select {
	case <-l.transport.Done():
		return l.transport.Err()
	case <-ctx.Done():
		return err
	}
}

// errorOf is the error that a response carries.
func errorOf(m jsonrpc.Message) error {
	if !m.Error.Present() {
		return nil
	}
	e := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "unreadable error"}
	if code, ok := jsonrpc.Lookup(m.Raw, m.Error, "code"); ok {
		if n, err := strconv.Atoi(string(code.Of(m.Raw))); err == nil {
			e.Code = n
		}
	}
	if text, ok := jsonrpc.Lookup(m.Raw, m.Error, "message"); ok {
		if message, ok := jsonrpc.Unquote(text.Of(m.Raw)); ok {
			e.Message = message
		}
	}
	return e
}

// send hands a message of our own making to the transport.
func (l *link) send(raw []byte) error {
	m, err := jsonrpc.Parse(raw)
	if err != nil {
		return err
	}
	_, err = l.transport.Send(m)
	return err
}

func (l *link) notify(method string, params []byte) error {
	return l.send(jsonrpc.NewNotification(method, params))
}

// forward relays r under an id of ours. It fails only when nothing was sent and
// r has no reply yet.
func (l *link) forward(r *Request) error {
	w := &waiter{request: r}
	id, err := l.add(w)
	if err != nil {
		return err
	}
	if r.withdrawn.Load() {
		l.remove(id)
		return nil
	}
	l.armTimeout(id, w)
	place, err := l.transport.Send(r.rewrite(id))
	l.mu.Lock()
	w.sent, w.place = true, place
	late, over := w.late, l.over
	l.mu.Unlock()
	switch {
	case err != nil && (late || l.remove(id) != nil):
		return err
	case late:
		l.conclude(w, over)
	}
	return nil // or the end of the link was quicker, and answered
}

// rewrite puts our id, the server's own tool name and our progress token, which is
// the id, into a copy of the client's request.
func (r *Request) rewrite(id int64) jsonrpc.Message {
	m := r.Message
	ours := strconv.AppendInt(nil, id, 10)
	edits := make([]jsonrpc.Edit, 0, 3)
	edits = append(edits, jsonrpc.Edit{Span: m.ID, With: ours})
	if r.NameAt.Present() && r.Name != nil {
		edits = append(edits, jsonrpc.Edit{Span: r.NameAt, With: r.Name})
	}
	if token, ok := r.progressToken(); ok {
		edits = append(edits, jsonrpc.Edit{Span: token, With: ours})
	}
	sortEdits(edits)
	return jsonrpc.Rewrite(m, edits...)
}

func (r *Request) progressToken() (jsonrpc.Span, bool) {
	return jsonrpc.Lookup(r.Message.Raw, r.Message.Params, "_meta", "progressToken")
}

// sortEdits orders at most three edits; clients put the id where they like.
func sortEdits(edits []jsonrpc.Edit) {
	for i := 1; i < len(edits); i++ {
		for j := i; j > 0 && edits[j].Span.Start < edits[j-1].Span.Start; j-- {
			edits[j], edits[j-1] = edits[j-1], edits[j]
		}
	}
}

// armTimeout starts the clock of a relayed call, where one is configured.
func (l *link) armTimeout(id int64, w *waiter) {
	if l.callTimeout <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w.timeout = time.AfterFunc(l.callTimeout, func() { l.expire(id) })
}

// expire ends a call that took longer than the user allows. The server goes on
// running and is told.
func (l *link) expire(id int64) {
	w := l.remove(id)
	if w == nil {
		return
	}
	l.sendCancelled(id, nil)
	w.request.fail(&jsonrpc.Error{
		Code: jsonrpc.CodeServerError,
		Message: fmt.Sprintf("server %q did not answer %q within %s (callTimeoutMs in its config); it was told to stop, and may have done the work",
			l.name, w.request.Label, l.callTimeout),
	})
}

// cancel forgets r and tells the server so. params are those of the client's own
// notification, whose reason is kept. It reports whether r was still waiting.
func (l *link) cancel(r *Request, params []byte) bool {
	id := l.find(r)
	if id == 0 || l.remove(id) == nil {
		return false
	}
	l.sendCancelled(id, params)
	return true
}

// find returns the id under which r waits, 0 when it does not.
func (l *link) find(r *Request) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, w := range l.waiting {
		if w.request == r {
			return id
		}
	}
	return 0
}

func (l *link) sendCancelled(id int64, params []byte) {
	ours := strconv.AppendInt(nil, id, 10)
	var out []byte
	if span, ok := jsonrpc.Lookup(params, jsonrpc.Whole(params), "requestId"); ok {
		out = jsonrpc.Splice(params, jsonrpc.Edit{Span: span, With: ours})
	} else {
		out = append(append([]byte(`{"requestId":`), ours...), '}')
	}
	// Best effort: the server may be gone, and then nothing runs there either.
	_ = l.notify("notifications/cancelled", out)
}

// Failed implements [Sink].
func (l *link) Failed(id int64, err error) {
	w := l.remove(id)
	switch {
	case w == nil:
	case w.own != nil:
		w.own <- ownReply{err: err}
	case unsent(err) && l.again != nil:
		l.again(l, w.request) // it cannot have run
	case endsConnection(err):
		w.request.fail(l.lostCall(w.request, err))
	default:
		l.doubtAfter(err)
		w.request.fail(&jsonrpc.Error{
			Code: jsonrpc.CodeServerError,
			Message: fmt.Sprintf("%q failed: %v. Server %q is still connected; the call may have run and is not sent again",
				w.request.Label, err, l.name),
		})
	}
}

// doubtAfter lets the owner of the link look whether the server is still there.
func (l *link) doubtAfter(err error) {
	refused, ok := errors.AsType[*statusError](err)
	if !ok || !nobodyBehind(refused.status) {
		return
	}
	select {
	case l.doubt <- struct{}{}:
	default:
	}
}

// end answers everybody who still waits, because the connection is over.
func (l *link) end(cause error) {
	l.mu.Lock()
	l.over = cause
	waiting := l.waiting
	l.waiting = nil
	for id, w := range waiting {
		if w.timeout != nil {
			w.timeout.Stop()
		}
		if w.late = w.request != nil && !w.sent; w.late {
			delete(waiting, id)
		}
	}
	l.mu.Unlock()
	for _, w := range waiting {
		l.conclude(w, cause)
	}
}

// conclude answers who waits on a link that is over because of cause. A request of
// which the server got nothing, because it was dead already, goes to its successor.
func (l *link) conclude(w *waiter, cause error) {
	switch {
	case w.own != nil:
		w.own <- ownReply{err: cause}
	case l.again != nil && !errors.Is(cause, errStopped) && l.transport.Unsent(w.place):
		l.again(l, w.request)
	default:
		w.request.fail(l.lostCall(w.request, cause))
	}
	l.endQuestions()
}

// lostCall is the error of a call that was sent and will get no answer, because the
// connection is over.
func (l *link) lostCall(r *Request, cause error) *jsonrpc.Error {
	text := fmt.Sprintf("server %q was lost while %q was running (%v); the call may have run and is not sent again. The server is being reconnected: try again",
		l.name, r.Label, cause)
	if errors.Is(cause, errStopped) {
		text = fmt.Sprintf("server %q was stopped while %q was running, by a reconnect, a change of the config or because it was switched off; the call may have run and is not sent again",
			l.name, r.Label)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeServerError, Message: text}
}
