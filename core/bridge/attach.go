package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"mcp-funnel/core/jsonrpc"
)

// Times of attaching.
const (
	// successorTime is how long only the successor of a replaced app is waited for,
	// before one is started.
	successorTime = 10 * time.Second
	// handshakeTime bounds the replayed handshake with an app.
	handshakeTime = 10 * time.Second
	// The pauses after attempts to attach that failed for good grow from the first to
	// the last. An app that somebody else starts meanwhile is noticed.
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// attachment is one connection to an app, which has been greeted.
type attachment struct {
	link Link
	// out takes what goes to the app, so that a client is never held up by an app
	// that does not read.
	out *jsonrpc.Writer
	// introduced: it has heard the client's initialize. resumable: it says itself
	// whether the client's lists are out of date.
	introduced, resumable bool
	writing               sync.WaitGroup
}

// attached reports whether there is an app that takes requests. b.mu is held.
func (b *bridge) attached() bool { return b.app != nil && b.bye == "" }

// write gives r's line to the app. b.mu is held.
func (b *bridge) write(r *request) {
	place, err := b.app.out.Put(r.line)
	if err != nil {
		b.unwritten(r, err)
		return
	}
	r.sent = place
	if !r.repeatable() && len(r.line) > keepLine {
		r.line = nil // kept only while it may not have left
	}
}

// keepLine is the length in bytes up to which the line of a call is kept until its
// reply.
const keepLine = 64 << 10

// unwritten deals with a line that the attachment did not take. b.mu is held.
func (b *bridge) unwritten(r *request, err error) {
	switch {
	case errors.Is(err, jsonrpc.ErrClosed) && r.method != "": // the app is lost, which its reader will see
		b.hold(r)
	case r.id != "":
		b.deny(r, "MCP Funnel does not read what it is sent, and too much waits for it; nothing was called")
	case r.method != "": // a response concerns nobody but the app that asked
		b.log.Warn("a notification of the client is dropped: the app does not read", "method", r.method)
	}
}

// keepAttached attaches whenever there is reason to, and carries what the app
// sends, until ctx ends.
func (b *bridge) keepAttached(ctx context.Context) {
	for {
		select {
		case <-b.need:
		case <-ctx.Done():
			return
		}
		a, reader := b.attach(ctx)
		if a == nil {
			return
		}
		b.carry(a, reader)
	}
}

// attach tries to attach until that succeeds; nil when ctx ends.
func (b *bridge) attach(ctx context.Context) (*attachment, *jsonrpc.Reader) {
	pause := firstPause
	for starting := true; ; {
		// While the client does not read, an app would only fill up with what it is
		// to get.
		b.outMu.Lock()
		//nolint:staticcheck // the lock was to be waited for, no more
		b.outMu.Unlock()
		limited, cancel := ctx, context.CancelFunc(func() {})
		if !starting { // between two attempts to start one, see whether somebody else does
			limited, cancel = context.WithTimeout(ctx, pause)
			pause = min(2*pause, lastPause)
		}
		a, reader, err := b.attachOnce(limited, starting)
		waited := limited.Err() != nil
		cancel()
		switch {
		case err == nil:
			return a, reader
		case ctx.Err() != nil:
			return nil, nil
		case errors.Is(err, errNoSuccessor): // now one may be started
			continue
		case waited && !starting: // nobody came; why the start failed is known
		default:
			b.failed(ctx, err, !starting)
		}
		starting = !starting
	}
}

// failed tells that attaching failed for good. When nothing was waited for, it takes
// its time.
func (b *bridge) failed(ctx context.Context, err error, pause bool) {
	b.log.Warn("attaching to the app failed; trying again", "err", err)
	b.mu.Lock()
	b.trouble = err
	b.mu.Unlock()
	if !pause {
		return
	}
	select {
	case <-time.After(firstPause):
	case <-ctx.Done():
	}
}

// errNoSuccessor: an app said that it would be replaced, and was not.
var errNoSuccessor = errors.New("no other app took the place of the one that left")

// attachOnce dials, brings the app to where the client is, and sends what waited.
func (b *bridge) attachOnce(ctx context.Context, start bool) (*attachment, *jsonrpc.Reader, error) {
	b.mu.Lock()
	// After a quit nobody could quit if bridges started the app again.
	start = start && !b.options.NoStart && b.bye != "quit"
	successor := b.bye == "replace" && !b.awaited
	b.awaited = true
	resume := b.resume
	b.mu.Unlock()
	dialling, cancel := ctx, context.CancelFunc(func() {})
	if successor {
		// Another app is about to take the place: one of ours would be in its way.
		start = false
		dialling, cancel = context.WithTimeout(ctx, successorTime)
	}
	link, err := b.options.Dial(dialling, start, resume)
	if err != nil && successor && dialling.Err() != nil && ctx.Err() == nil {
		err = errNoSuccessor
	}
	cancel()
	if err != nil {
		return nil, nil, err
	}
	a := &attachment{link: link, out: jsonrpc.NewWriter(maxBacklog, b.burst)}
	reader := jsonrpc.NewReader(link.R, 0)
	if err := b.introduce(ctx, a, reader); err != nil {
		_ = link.Close() // it is of no use; the error tells why
		return nil, nil, fmt.Errorf("repeating the handshake: %w", err)
	}
	a.writing.Go(func() {
		// An app that cannot be written to is lost: wake its reader.
		_ = a.out.Run(link, 0)
		_ = link.Close()
	})
	b.adopt(ctx, a, resume != "")
	return a, reader, nil
}

// introduce says the client's initialize to an app.
func (b *bridge) introduce(ctx context.Context, a *attachment, reader *jsonrpc.Reader) error {
	b.mu.Lock()
	greeting, id := b.greeting, b.greetingID
	b.mu.Unlock()
	if greeting == nil {
		return nil
	}
	a.introduced = true
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = a.link.Close() }) // ends the reading below
	defer stop()

	if _, err := a.link.Write(append(slices.Clip(greeting), '\n')); err != nil {
		return err
	}
	for {
		line, err := reader.Next()
		if err != nil {
			return err
		}
		if isLinkMessage(line) {
			b.fromLink(a, line)
			continue
		}
		m, err := jsonrpc.Parse(line)
		if err == nil && m.Kind == jsonrpc.Response && string(m.ID.Of(m.Raw)) == id {
			return nil // the client has its answer, from us
		}
	}
}

// adopt puts a new attachment into use: it gets what waited, in order. resumed says
// that the app was told where the session stands.
func (b *bridge) adopt(ctx context.Context, a *attachment, resumed bool) {
	b.mu.Lock()
	b.app, b.bye, b.awaited, b.trouble = a, "", false, nil
	if !a.introduced && b.greeting != nil { // the client said it meanwhile
		b.write(&request{method: "initialize", line: b.greeting})
	}
	if b.greeted != nil {
		b.write(&request{method: "notifications/initialized", line: b.greeted})
	}
	for _, r := range b.release() {
		b.write(r)
	}
	var changed []string
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		_, known := b.lists[method]
		if b.unfounded[method] || known && (!resumed || !a.resumable) {
			// What this app lists may differ from what the client got.
			changed = append(changed, changedNotice(method))
		}
	}
	b.unfounded = nil
	b.unlock()
	if ctx.Err() != nil {
		b.detach() // the end came meanwhile and did not see this attachment
	}
	for _, notice := range slices.Compact(changed) {
		b.toClient(jsonrpc.NewNotification(notice, nil))
	}
}

// carry passes on what the app sends until it is gone.
func (b *bridge) carry(a *attachment, reader *jsonrpc.Reader) {
	for {
		line, err := reader.Next()
		long, tooLong := errors.AsType[*jsonrpc.TooLongError](err)
		switch {
		case tooLong:
			if id := long.ID(); id != nil && b.answered(id) != nil {
				b.refuse(id, jsonrpc.CodeInternalError, long.Error())
			}
		case err != nil:
			b.flushToClient()
			b.lost(a)
			return
		case reader.Cut(): // the app was killed while it wrote this
		default:
			b.fromApp(a, line)
		}
		if !reader.More() {
			b.flushToClient()
			b.noteIdle()
		}
	}
}

// lost answers or keeps what the app left open.
func (b *bridge) lost(a *attachment) {
	_ = a.link.Close() // it is broken already
	a.out.Close()
	a.writing.Wait()
	begun := a.out.Begun()
	b.mu.Lock()
	b.app = nil
	var failed []*request
	for _, r := range b.inOrder() {
		switch {
		case r.sent == 0: // it waits already
		case r.repeatable(), r.sent > begun && r.line != nil:
			b.hold(r)
		default:
			failed = append(failed, r)
			b.forget(r.id)
		}
	}
	b.wantLink()
	b.unlock()
	for _, r := range failed {
		b.refuse([]byte(r.id), jsonrpc.CodeServerError,
			"the connection to MCP Funnel was lost; the call may have run. It is being connected again: look, then try again")
	}
}

// fromApp takes one line of the app. flushToClient has to follow.
func (b *bridge) fromApp(a *attachment, line []byte) {
	if isLinkMessage(line) {
		b.fromLink(a, line)
		return
	}
	id, response := jsonrpc.ReplyID(line)
	if response {
		r := b.answered(id)
		if r == nil {
			return // nobody waits for it
		}
		b.remember(r, line)
	}
	b.gatherToClient(line)
}

// answered takes the request with that id off the list of those without a reply; nil
// when it is not on it.
func (b *bridge) answered(id []byte) *request {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.asked[string(id)]
	if r == nil {
		if string(id) == "null" {
			return &request{} // the app could not read a line
		}
		return nil
	}
	b.forget(string(id))
	return r
}

// remember keeps the reply to a list request: it answers the next one when there is
// no app.
func (b *bridge) remember(r *request, line []byte) {
	if !r.list {
		return
	}
	m, err := jsonrpc.Parse(line)
	if err != nil || !m.Result.Present() {
		return
	}
	if _, paged := jsonrpc.Lookup(m.Raw, m.Result, "nextCursor"); paged {
		return // the rest cannot be had from memory
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lists[r.method] = bytes.Clone(m.Result.Of(m.Raw))
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

// fromLink takes a message of the app to the bridge itself. Members that are not
// known belong to a newer app.
func (b *bridge) fromLink(a *attachment, line []byte) {
	whole := jsonrpc.Whole(line)
	b.mu.Lock()
	defer b.unlock()
	if bye, ok := jsonrpc.LookupString(line, whole, "bye"); ok {
		b.bye = bye
	}
	if resume, ok := jsonrpc.LookupString(line, whole, "resume"); ok {
		b.resume, a.resumable = resume, true
	}
	if span, ok := jsonrpc.Lookup(line, whole, "return"); ok {
		b.returned(bytes.Clone(span.Of(line)))
	}
}

// returned takes a request back that the app has not begun: its successor gets it.
// b.mu is held.
func (b *bridge) returned(line []byte) {
	m, err := jsonrpc.Parse(line)
	if err != nil {
		return
	}
	if r := b.asked[string(m.ID.Of(line))]; r != nil && r.sent > 0 {
		r.line = line
		b.hold(r)
	}
}

// wantLink asks for an attachment. It is needed from the client's greeting on.
func (b *bridge) wantLink() {
	select {
	case b.need <- struct{}{}:
	default:
	}
}

// detach closes the attachment, if there is one.
func (b *bridge) detach() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.app != nil {
		_ = b.app.link.Close() // wakes its reader
	}
}
