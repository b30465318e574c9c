package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/config"
	"mcp-funnel/core/jsonrpc"
)

// attemptResult is the outcome of one attempt: a link that is up, or why not.
type attemptResult struct {
	link  *link
	shake handshake
	lists Lists
	// fingerprint is that of the entry which was tried.
	fingerprint string
	err         error
	// stderr is the tail of what a failed server wrote.
	stderr string
}

// startAttempt begins to connect in the background; u.results tells the outcome.
func (u *Upstream) startAttempt(ctx context.Context) {
	ctx, u.cancel = context.WithCancelCause(ctx)
	entry, urgent := u.entry, u.urgent
	u.urgent = false
	u.work.Go(func() { u.results <- u.attempt(ctx, entry, urgent) })
}

// attempt waits for the server's turn, unless a person wants it now, and connects to
// it. When that fails nothing is left of it.
func (u *Upstream) attempt(ctx context.Context, entry config.Server, urgent bool) attemptResult {
	if urgent {
		return u.connect(ctx, entry)
	}
	leave, err := u.deps.starts.enter(ctx, entry)
	if err != nil {
		return attemptResult{err: err}
	}
	result := u.connect(ctx, entry)
	leave(result.err == nil)
	return result
}

// connect opens a fresh transport, greets the server and reads its lists.
func (u *Upstream) connect(ctx context.Context, entry config.Server) attemptResult {
	late := fmt.Errorf("it did not finish its start within %s (startupTimeoutMs in its config)", entry.StartupTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, entry.StartupTimeout, late)
	defer cancel()

	transport, err := u.deps.Open(entry)(ctx)
	if err != nil {
		return attemptResult{err: err}
	}
	l := newLink(entry.Name, entry.CallTimeout)
	l.transport, l.again = transport, u.takeBack
	l.news = func(m jsonrpc.Message) { u.deps.News(u.name, m) }
	transport.Start(l)
	result := attemptResult{link: l, fingerprint: entry.Fingerprint()}
	if result.shake, result.err = l.greet(ctx, u.deps.Self); result.err == nil {
		result.lists, result.err = u.readLists(ctx, l, result.shake.has, result.shake.has, Lists{Instructions: result.shake.instructions})
	}
	if result.err != nil {
		result.err = tidy(transport, result.err)
		l.end(result.err)
		transport.Close()
		return attemptResult{err: result.err, stderr: transport.StderrTail()}
	}
	return result
}

// readLists is that of the link, with what is wrong with the server noted.
func (u *Upstream) readLists(ctx context.Context, l *link, has, want kindSet, old Lists) (Lists, error) {
	lists, skipped, err := l.readLists(ctx, has, want, old)
	for _, err := range skipped {
		u.deps.Log.Warn("a server does not tell what it has", "server", u.name, "err", tidy(l.transport, err))
	}
	return u.sound(lists), err
}

// attemptEnded takes the outcome of the attempt over.
func (u *Upstream) attemptEnded(ctx context.Context, result attemptResult) {
	u.cancel(nil)
	if u.machine.phase == stopping { // it was cancelled
		if result.link == nil {
			u.carryOut(ctx, inStopped)
			return
		}
		u.live = result.link
		u.closeLink(errStopped)
		return
	}
	if result.err != nil {
		u.facts.lastError, u.facts.stderrTail = result.err.Error(), result.stderr
		if refused, ok := errors.AsType[*statusError](result.err); ok {
			u.machine.hold(refused.retryAfter, time.Now())
		}
		if _, refused := errors.AsType[*AuthError](result.err); refused {
			u.carryOut(ctx, inRefused)
		} else {
			u.carryOut(ctx, inFailed)
		}
		u.settle()
		return
	}
	u.connected(ctx, result)
}

// connected puts a new connection into use.
func (u *Upstream) connected(ctx context.Context, result attemptResult) {
	u.live = result.link
	u.facts = facts{
		pid:      result.link.transport.PID(),
		version:  result.shake.version,
		has:      result.shake.has,
		restarts: u.machine.connections,
	}
	u.mu.Lock()
	u.lists, u.listsOf = result.lists, result.fingerprint
	u.mu.Unlock()
	u.carryOut(ctx, inConnected)
	_, heard := result.link.activity()
	u.health.begin(u.entry.PingInterval, heard)
	u.settle()
	u.restore(result.link)
	u.unpark(result.link)
	u.deps.Changed()
}

// restore brings a new connection to where clients had the last one.
func (u *Upstream) restore(l *link) {
	subscriptions, level := u.deps.Wanted(u.name)
	l.setLogLevel(level)
	for _, uri := range subscriptions {
		l.post(mcp.MethodResourcesSubscribe, uriParams(uri))
	}
}

func uriParams(uri string) []byte {
	return append(append([]byte(`{"uri":`), jsonrpc.Quote(uri)...), '}')
}

// SetLogLevel asks the server for log messages from that level on, now and after every
// reconnect; "" leaves it to the server.
func (u *Upstream) SetLogLevel(level string) {
	if l := u.connection(); l != nil {
		l.setLogLevel(level)
	}
}

// Notify passes a client's notification on.
func (u *Upstream) Notify(_ Caller, raw []byte) {
	if l := u.connection(); l != nil {
		_ = l.send(raw) // if it cannot be sent the connection is over, which Done tells
	}
}

// Subscribe tells the server that somebody wants to know of a resource.
func (u *Upstream) Subscribe(uri string) {
	if l := u.connection(); l != nil {
		l.post(mcp.MethodResourcesSubscribe, uriParams(uri))
	}
}

// Unsubscribe tells the server that nobody wants to know of a resource any more.
func (u *Upstream) Unsubscribe(uri string) {
	if l := u.connection(); l != nil {
		l.post(mcp.MethodResourcesUnsubscribe, uriParams(uri))
	}
}

// connection is the link in use, nil while there is none.
func (u *Upstream) connection() *link {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.link
}

// setLogLevel does nothing for a server without a log.
func (l *link) setLogLevel(level string) {
	if l.logging && level != "" {
		l.post(mcp.MethodSetLogLevel, append(append([]byte(`{"level":`), jsonrpc.Quote(level)...), '}'))
	}
}

// post sends a request of our own whose answer does not matter.
func (l *link) post(method mcp.MCPMethod, params []byte) {
	id, err := l.add(&waiter{own: make(chan ownReply, 1)})
	if err != nil {
		return // the connection is over
	}
	if l.send(jsonrpc.NewRequest(id, string(method), params)) != nil {
		l.remove(id)
	}
}

type relistResult struct {
	link  *link
	lists Lists
	err   error
}

// relistTimeout bounds how long a server may take to tell its changed lists.
const relistTimeout = time.Minute

// relist reads the lists again, in the background, of which the server said that they
// changed.
func (u *Upstream) relist(ctx context.Context) {
	l, has, want := u.live, u.facts.has, u.live.takeStale()
	u.listing = true
	u.mu.Lock()
	old := u.lists
	u.mu.Unlock()
	u.work.Go(func() {
		ctx, cancel := context.WithTimeoutCause(ctx, relistTimeout, errors.New("no answer within a minute"))
		defer cancel()
		lists, err := u.readLists(ctx, l, has, want, old)
		u.relists <- relistResult{link: l, lists: lists, err: tidy(l.transport, err)}
	})
}

// relisted takes over what relist read, if it is of the present connection.
func (u *Upstream) relisted(result relistResult) {
	u.listing = false
	if result.link != u.live {
		return
	}
	if result.err != nil {
		u.deps.Log.Warn("reading changed lists failed; the old ones stay", "server", u.name, "err", result.err)
		return
	}
	u.mu.Lock()
	u.lists = result.lists
	u.mu.Unlock()
	u.show()
	u.deps.Changed()
}
