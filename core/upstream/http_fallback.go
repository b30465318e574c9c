package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// fallback is the [Transport] of a server of which only the url is known: Streamable
// HTTP, or the older HTTP with SSE where the answer to initialize is none of Streamable
// HTTP (MCP 2025-11-25, "Backwards Compatibility"). Both tries make one attempt. That
// no answer came is no reason to try the other.
type fallback struct {
	endpoint Endpoint
	// older makes the second transport.
	older func() (*eventStream, error)
	first *streamable
	sink  Sink
	done  chan struct{}
	work  sync.WaitGroup

	closing sync.Once

	mu sync.Mutex
	// current is the transport in use: first or second.
	current Transport
	second  *eventStream
	// greeting is initialize, and greetID its id; 0 before.
	greeting jsonrpc.Message
	greetID  int64
	// refusal is why the first is not in use any more.
	refusal error
	// started: watch tells the end. closed: nothing is opened any more.
	started, closed bool
}

func openFallback(ctx context.Context, e Endpoint) (Transport, error) {
	first, err := openStreamable(ctx, e)
	if err != nil {
		return nil, err
	}
	return &fallback{
		endpoint: e, first: first, current: first, done: make(chan struct{}),
		older: func() (*eventStream, error) { return newEventStream(ctx, e) },
	}, nil
}

// inUse is the transport that counts now.
func (f *fallback) inUse() Transport {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current
}

// Start implements [Transport].
func (f *fallback) Start(sink Sink) {
	f.mu.Lock()
	f.sink, f.started = sink, !f.closed
	if f.started {
		f.work.Go(f.watch)
	}
	f.mu.Unlock()
	f.first.Start(f)
}

// watch tells the end of the transport that is in use when it ends.
func (f *fallback) watch() {
	defer close(f.done)
	for {
		t := f.inUse()
		<-t.Done()
		if f.inUse() == t {
			return
		}
	}
}

// Receive implements [Sink] for both transports.
func (f *fallback) Receive(m jsonrpc.Message, cause int64) { f.sink.Receive(m, cause) }

// Failed implements [Sink] for both transports.
func (f *fallback) Failed(id int64, err error) {
	f.mu.Lock()
	if id == f.greetID && f.second == nil && !f.closed && notStreamable(err) {
		defer f.mu.Unlock()
		f.refusal = err
		f.work.Go(f.change) // who calls is joined when the first is closed
		return
	}
	f.mu.Unlock()
	f.sink.Failed(id, f.explain(err))
}

// notStreamable reports whether an answer to initialize is none of Streamable HTTP.
func notStreamable(err error) bool {
	if refused, ok := errors.AsType[*statusError](err); ok {
		return wrongKind(refused.status)
	}
	strange, ok := errors.AsType[*exchangeError](err)
	return ok && strange.foreign
}

// change puts a transport of the older kind in the place of the first, and greets the
// server there.
func (f *fallback) change() {
	second, err := f.older()
	f.mu.Lock()
	greeting, id, closed := f.greeting, f.greetID, f.closed
	if err == nil && !closed {
		f.second, f.current = second, second
	}
	f.mu.Unlock()
	switch {
	case err != nil:
		f.sink.Failed(id, err)
		return
	case closed:
		second.Close()
		return
	}
	second.Start(f)
	if _, err := second.Send(greeting); err != nil {
		f.sink.Failed(id, f.explain(err))
	}
	f.first.Close()
}

// explain says of an error of the second transport why it was tried, unless it proved
// to be the right one, or the server did not answer at all.
func (f *fallback) explain(err error) error {
	f.mu.Lock()
	second, refusal := f.second, f.refusal
	f.mu.Unlock()
	if second == nil || err == nil || second.isLocated() {
		return err
	}
	_, auth := errors.AsType[*AuthError](err)
	status, refused := errors.AsType[*statusError](err)
	if auth || refused && busy(status.status) || endsConnection(err) || errors.Is(err, errStopped) {
		return err
	}
	return &exchangeError{
		text: fmt.Sprintf("%v; nor does it speak the older HTTP with SSE: %v; is the url in its config the one for MCP?",
			refusal, err),
		cause: refusal,
	}
}

// Send implements [Transport].
func (f *fallback) Send(m jsonrpc.Message) (place int, err error) {
	f.mu.Lock()
	if id, ok := parseID(m.ID.Of(m.Raw)); ok && m.Kind == jsonrpc.Request && m.MethodName() == string(mcp.MethodInitialize) {
		f.greeting, f.greetID = m, id
	}
	t := f.current
	f.mu.Unlock()
	return t.Send(m)
}

// Unsent implements [Transport].
func (f *fallback) Unsent(place int) bool { return f.inUse().Unsent(place) }

// Done implements [Transport].
func (f *fallback) Done() <-chan struct{} { return f.done }

// Err implements [Transport].
func (f *fallback) Err() error { return f.explain(f.inUse().Err()) }

// Negotiated implements [Transport].
func (f *fallback) Negotiated(version string) { f.inUse().Negotiated(version) }

// Close implements [Transport].
func (f *fallback) Close() {
	f.closing.Do(func() {
		f.mu.Lock()
		f.closed = true
		second, started := f.second, f.started
		f.mu.Unlock()
		f.first.Close()
		if second != nil {
			second.Close()
		}
		f.work.Wait()
		if !started {
			close(f.done)
		}
	})
}

// Mask implements [Transport].
func (f *fallback) Mask(text string) string { return f.endpoint.Mask(text) }

// PID implements [Transport].
func (f *fallback) PID() int { return 0 }

// StderrTail implements [Transport].
func (f *fallback) StderrTail() string { return "" }
