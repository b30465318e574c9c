package upstream

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// activity reports whether somebody waits for an answer now, and how many messages
// have come so far.
func (l *link) activity() (busy bool, received uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) > 0, l.received.Load()
}

// Receive implements [Sink].
func (l *link) Receive(m jsonrpc.Message, cause int64) {
	l.received.Add(1)
	switch m.Kind {
	case jsonrpc.Response:
		l.receiveReply(m)
	case jsonrpc.Request:
		l.receiveRequest(m, cause)
	case jsonrpc.Notification:
		l.receiveNotification(m, cause)
	}
}

func (l *link) receiveReply(m jsonrpc.Message) {
	id, ok := parseID(m.ID.Of(m.Raw))
	if !ok {
		return
	}
	w := l.remove(id)
	switch {
	case w == nil: // late, or cancelled: nobody waits for it
	case w.own != nil:
		w.own <- ownReply{message: m.Clone()}
	default:
		w.request.Caller.Reply(w.request, jsonrpc.Splice(m.Raw,
			jsonrpc.Edit{Span: m.ID, With: w.request.Message.ID.Of(w.request.Message.Raw)}))
	}
}

// parseID reads an id of ours. Some servers send it back as a string.
func parseID(raw []byte) (int64, bool) {
	id, err := strconv.ParseInt(strings.Trim(string(raw), `"`), 10, 64)
	return id, err == nil
}

func (l *link) receiveNotification(m jsonrpc.Message, cause int64) {
	method := m.MethodName()
	if changed := changedKinds(method); changed != 0 {
		l.noteStale(changed)
		return
	}
	switch method {
	case string(mcp.MethodNotificationProgress):
		l.receiveProgress(m)
	case string(mcp.MethodNotificationCancelled):
		l.withdrawn(m)
	default:
		if caller := l.callerOf(cause); caller != nil {
			caller.Tell(bytes.Clone(m.Raw))
			return
		}
		if l.news != nil {
			l.news(m.Clone())
		}
	}
}

// noteStale notes lists that have to be read again.
func (l *link) noteStale(changed kindSet) {
	l.mu.Lock()
	l.stale |= changed
	l.mu.Unlock()
	select {
	case l.listsChanged <- struct{}{}:
	default:
	}
}

// takeStale returns the lists that have to be read again, which is then on its way.
func (l *link) takeStale() kindSet {
	l.mu.Lock()
	defer l.mu.Unlock()
	stale := l.stale
	l.stale = 0
	return stale
}

// receiveProgress gives a progress notification to whoever waits, with the token
// the client chose, and restarts the clock of the call.
func (l *link) receiveProgress(m jsonrpc.Message) {
	token, ok := jsonrpc.Lookup(m.Raw, m.Params, "progressToken")
	if !ok {
		return
	}
	id, ok := parseID(token.Of(m.Raw))
	if !ok {
		return
	}
	l.mu.Lock()
	w := l.waiting[id]
	if w != nil && w.timeout != nil {
		w.timeout.Reset(l.callTimeout)
	}
	l.mu.Unlock()
	if w == nil || w.request == nil {
		return
	}
	if theirs, ok := w.request.progressToken(); ok {
		w.request.Caller.Progress(w.request, jsonrpc.Splice(m.Raw,
			jsonrpc.Edit{Span: token, With: theirs.Of(w.request.Message.Raw)}))
	}
}
