package upstream

import (
	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// Question is a request of a server to a client: sampling, elicitation, roots, or one
// that we do not know.
type Question struct {
	// Message is the request as the server sent it, with the server's own id.
	Message jsonrpc.Message

	link   *link
	caller Caller
}

// Answer gives the server the client's response, in which only the id is changed.
func (q *Question) Answer(response jsonrpc.Message) {
	if !q.link.forgetQuestion(q) {
		return // nobody waits for it any more
	}
	// If it cannot be sent the connection is over, which Done tells.
	_, _ = q.link.transport.Send(jsonrpc.Rewrite(response, jsonrpc.Edit{Span: response.ID, With: q.id()}))
}

// Refuse answers with an error.
func (q *Question) Refuse(e *jsonrpc.Error) {
	if q.link.forgetQuestion(q) {
		_ = q.link.send(jsonrpc.NewError(q.id(), e)) // see Answer
	}
}

// Notify gives the server a notification about the question, such as progress.
func (q *Question) Notify(raw []byte) { _ = q.link.send(raw) } // see Answer

func (q *Question) id() []byte { return q.Message.ID.Of(q.Message.Raw) }

// receiveRequest hands a server's request to the client that provably caused it: the
// one on whose request's stream it came, or the only one with requests under way, or the
// only one who uses the connection at all. Nobody else may see it.
func (l *link) receiveRequest(m jsonrpc.Message, cause int64) {
	if m.MethodName() == string(mcp.MethodPing) {
		_ = l.send(jsonrpc.NewResult(m.ID.Of(m.Raw), []byte("{}"))) // see Answer
		return
	}
	q := &Question{Message: m.Clone(), link: l}
	caller := l.callerOf(cause)
	if caller == nil {
		caller = l.soleCaller()
	}
	if caller == nil && l.owner != nil {
		caller = l.owner()
	}
	l.mu.Lock()
	q.caller = caller
	l.questions[string(q.id())] = q
	l.mu.Unlock()
	if caller == nil {
		q.Refuse(&jsonrpc.Error{
			Code:    jsonrpc.CodeMethodNotFound,
			Message: "the funnel serves several clients, and which of them this request is for cannot be told: no request, or those of several clients, are under way",
		})
		return
	}
	caller.Ask(q)
}

// callerOf is who made the request with that id of ours; nil when it is over, or 0.
func (l *link) callerOf(id int64) Caller {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.waiting[id]; w != nil && w.request != nil {
		return w.request.Caller
	}
	return nil
}

// soleCaller is the only one whose requests are under way; nil when there is none, or
// another.
func (l *link) soleCaller() Caller {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sole Caller
	for _, w := range l.waiting {
		switch {
		case w.request == nil:
		case sole == nil:
			sole = w.request.Caller
		case sole != w.request.Caller:
			return nil
		}
	}
	return sole
}

// withdrawn takes the server's word that it does not wait for an answer any more.
func (l *link) withdrawn(m jsonrpc.Message) {
	span, _ := jsonrpc.Lookup(m.Raw, m.Params, "requestId")
	l.mu.Lock()
	q := l.questions[string(span.Of(m.Raw))]
	l.mu.Unlock()
	if q != nil && l.forgetQuestion(q) && q.caller != nil {
		q.caller.Withdraw(q)
	}
}

// forgetQuestion reports whether q still waits for its answer, and takes it off the
// list. Who gets true may answer.
func (l *link) forgetQuestion(q *Question) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := string(q.id())
	if l.questions[id] != q {
		return false
	}
	delete(l.questions, id)
	return true
}

// endQuestions withdraws all: the server is gone.
func (l *link) endQuestions() {
	l.mu.Lock()
	questions := l.questions
	l.questions = make(map[string]*Question)
	l.mu.Unlock()
	for _, q := range questions {
		if q.caller != nil {
			q.caller.Withdraw(q)
		}
	}
}
