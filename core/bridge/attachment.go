package bridge

import (
	"bytes"
	"errors"
	"sync"

	"mcp-funnel/core/jsonrpc"
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
	// questions are the ids of its requests to the client that have no answer yet.
	questions map[string]bool
	writing   sync.WaitGroup
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
	a.out.Stop()
	a.writing.Wait()
	begun := a.out.Begun()
	b.mu.Lock()
	b.app = nil
	quit := b.bye == "quit"
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
	message := "the connection to MCP Funnel was lost; the call may have run. It is being connected again: look, then try again"
	if quit {
		message = "MCP Funnel was quit, and the connection to it lost; the call may have run. Start it (`mcp-funnel`), look, then try again"
	}
	for _, r := range failed {
		b.refuse([]byte(r.id), jsonrpc.CodeServerError, message)
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
	} else {
		b.noteQuestion(a, line)
	}
	b.gatherToClient(line)
}

// noteQuestion remembers a request of the app: the client's answer is for this app
// only, and would mean something else to the next one.
func (b *bridge) noteQuestion(a *attachment, line []byte) {
	m, err := jsonrpc.Parse(line)
	if err != nil || m.Kind != jsonrpc.Request {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.questions == nil {
		a.questions = make(map[string]bool)
	}
	a.questions[string(m.ID.Of(m.Raw))] = true
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
	result, ok := resultOf(r.id, line)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lists[r.method] = append(b.lists[r.method][:0], result...)
}

// resultOf finds the result in a reply. Those of an app are built alike, and a list
// may be long: it is not read for that.
func resultOf(id string, line []byte) ([]byte, bool) {
	if rest, ok := bytes.CutPrefix(line, []byte(`{"jsonrpc":"2.0","id":`)); ok {
		if rest, ok = bytes.CutPrefix(rest, []byte(id)); ok {
			if rest, ok = bytes.CutPrefix(rest, []byte(`,"result":`)); ok {
				return bytes.CutSuffix(rest, []byte{'}'})
			}
		}
	}
	m, err := jsonrpc.Parse(line)
	return m.Result.Of(m.Raw), err == nil && m.Result.Present()
}

// remembered is the last result of a list method, if it is the whole list: the rest of
// one in pages cannot be had from memory. b.mu is held, and the bytes are the caller's.
func (b *bridge) remembered(method string) ([]byte, bool) {
	result, known := b.lists[method]
	if _, paged := jsonrpc.Lookup(result, jsonrpc.Whole(result), "nextCursor"); paged {
		return nil, false
	}
	return bytes.Clone(result), known
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
		if len(resume) > longestResume {
			b.resume = "" // attaching without it is better than not at all
		}
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
