package upstream

import (
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// Question is a request of a server to a client: sampling, elicitation, roots, or one
// that we do not know. It is answered, refused or withdrawn once; what comes later has
// no effect.
type Question struct {
	// Message is the request as the server sent it, with the server's own id.
	Message jsonrpc.Message

	// send takes what goes to the server; it does not block.
	send    func(message []byte)
	settled atomic.Bool
	// forget, if there is one, is called when it is settled.
	forget func()
	caller Caller
}

// NewQuestion returns a question whose answer goes to send.
func NewQuestion(m jsonrpc.Message, send func(message []byte)) *Question {
	return &Question{Message: m, send: send}
}

// Answer gives the server the client's response, in which only the id is changed.
func (q *Question) Answer(response jsonrpc.Message) {
	if q.settle() {
		q.send(jsonrpc.Splice(response.Raw, jsonrpc.Edit{Span: response.ID, With: q.id()}))
	}
}

// Refuse answers with an error.
func (q *Question) Refuse(e *jsonrpc.Error) {
	if q.settle() {
		q.send(jsonrpc.NewError(q.id(), e))
	}
}

// Notify gives the server a notification about the question, such as progress.
func (q *Question) Notify(raw []byte) { q.send(raw) }

func (q *Question) id() []byte { return q.Message.ID.Of(q.Message.Raw) }

// settle reports whether q was still open. Who gets true decides what becomes of it.
func (q *Question) settle() bool {
	if !q.settled.CompareAndSwap(false, true) {
		return false
	}
	if q.forget != nil {
		q.forget()
	}
	return true
}

// receiveRequest hands a server's request to the client that provably caused it: the
// one on whose request's stream it came, or the only one with requests under way.
// Nobody else may see it.
func (l *link) receiveRequest(m jsonrpc.Message, cause int64) {
	// If an answer cannot be sent the connection is over, which Done tells.
	send := func(raw []byte) { _ = l.send(raw) }
	if m.MethodName() == string(mcp.MethodPing) {
		send(jsonrpc.NewResult(m.ID.Of(m.Raw), []byte("{}")))
		return
	}
	q := NewQuestion(m.Clone(), send)
	id := string(q.id())
	q.forget = func() { l.forgetQuestion(id, q) }
	caller := l.callerOf(cause)
	if caller == nil {
		caller = l.soleCaller()
	}
	l.mu.Lock()
	q.caller = caller
	l.questions[id] = q
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
	if q != nil && q.settle() && q.caller != nil {
		q.caller.Withdraw(q)
	}
}

// forgetQuestion takes q, which is settled, off the list.
func (l *link) forgetQuestion(id string, q *Question) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.questions[id] == q {
		delete(l.questions, id)
	}
}

// endQuestions withdraws all: the server is gone.
func (l *link) endQuestions() {
	l.mu.Lock()
	questions := l.questions
	l.questions = make(map[string]*Question)
	l.mu.Unlock()
	for _, q := range questions {
		if q.settle() && q.caller != nil {
			q.caller.Withdraw(q)
		}
	}
}
