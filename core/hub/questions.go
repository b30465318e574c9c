package hub

import (
	"bytes"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/upstream"
)

// abilities are what a client declared that it can do for servers.
type abilities struct{ sampling, roots, elicitForm, elicitURL bool }

// abilitiesOf reads them from the client's initialize. An empty elicitation means
// forms, as before there was another mode.
func abilitiesOf(initialize jsonrpc.Message) abilities {
	has := func(path ...string) bool {
		span, ok := jsonrpc.Lookup(initialize.Raw, initialize.Params, append([]string{"capabilities"}, path...)...)
		return ok && !bytes.Equal(span.Of(initialize.Raw), []byte("null"))
	}
	return abilities{
		sampling: has("sampling"), roots: has("roots"), elicitURL: has("elicitation", "url"),
		elicitForm: has("elicitation") && (has("elicitation", "form") || !has("elicitation", "url")),
	}
}

// cannot is what keeps the client from answering m, "" when nothing does.
func (a abilities) cannot(m jsonrpc.Message) string {
	able := true
	switch m.MethodName() {
	case string(mcp.MethodSamplingCreateMessage):
		able = a.sampling
	case string(mcp.MethodListRoots):
		able = a.roots
	case string(mcp.MethodElicitationCreate):
		able = a.elicitForm
		if mode, _ := jsonrpc.LookupString(m.Raw, m.Params, "mode"); mode == "url" {
			able = a.elicitURL
		}
	}
	if able {
		return ""
	}
	return fmt.Sprintf("the client that this %s is for cannot do it", m.MethodName())
}

// Ask implements [upstream.Caller]: the client gets the server's request under an id
// of ours.
func (s *session) Ask(q *upstream.Question) {
	m := q.Message
	s.mu.Lock()
	defer s.mu.Unlock()
	if why := s.can.cannot(m); why != "" {
		q.Refuse(&jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: why})
		return
	}
	id := s.nextID()
	s.questions[string(id)] = q
	if elicitation, ok := jsonrpc.LookupString(m.Raw, m.Params, "elicitationId"); ok && len(s.elicitations) < maxElicitations {
		s.elicitations[elicitation] = true
	}
	edits := []jsonrpc.Edit{{Span: m.ID, With: id}}
	if token, ok := jsonrpc.Lookup(m.Raw, m.Params, "_meta", "progressToken"); ok {
		edits = append(edits, jsonrpc.Edit{Span: token, With: id})
		if token.Start < m.ID.Start {
			edits[0], edits[1] = edits[1], edits[0]
		}
	}
	s.send(jsonrpc.Splice(m.Raw, edits...))
}

// maxElicitations bounds how many that go on out of band are remembered.
const maxElicitations = 1000

// Withdraw implements [upstream.Caller].
func (s *session) Withdraw(q *upstream.Question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, other := range s.questions {
		if other == q {
			delete(s.questions, id)
			s.send(jsonrpc.NewNotification(string(mcp.MethodNotificationCancelled), []byte(`{"requestId":`+id+`}`)))
			return
		}
	}
}

// Tell implements [upstream.Caller].
func (s *session) Tell(notification []byte) {
	if m, err := jsonrpc.Parse(notification); err == nil && s.wants(m) {
		s.send(notification)
	}
}

// answered gives a client's response to the server that asked.
func (s *session) answered(m jsonrpc.Message) {
	id := string(m.ID.Of(m.Raw))
	s.mu.Lock()
	q, own := s.questions[id], s.own[id]
	delete(s.questions, id)
	delete(s.own, id)
	s.mu.Unlock()
	if own != nil {
		own <- m.Clone()
		return
	}
	if q != nil { // else it was withdrawn, or another app asked
		q.Answer(m)
	}
}

// progressed gives a server the progress that a client makes with its question.
func (s *session) progressed(m jsonrpc.Message) {
	span, _ := jsonrpc.Lookup(m.Raw, m.Params, "progressToken")
	s.mu.Lock()
	q := s.questions[string(span.Of(m.Raw))]
	s.mu.Unlock()
	if q == nil {
		return
	}
	token, ok := jsonrpc.Lookup(q.Message.Raw, q.Message.Params, "_meta", "progressToken")
	if ok {
		q.Notify(jsonrpc.Splice(m.Raw, jsonrpc.Edit{Span: span, With: token.Of(q.Message.Raw)}))
	}
}

// refuseQuestions answers what the client will not answer any more.
func (s *session) refuseQuestions() {
	s.mu.Lock()
	questions := s.questions
	s.questions = make(map[string]*upstream.Question)
	s.mu.Unlock()
	for _, q := range questions {
		q.Refuse(&jsonrpc.Error{Code: jsonrpc.CodeServerError, Message: "the client that this was for went away"})
	}
}

// notified takes a notification of the client.
func (s *session) notified(m jsonrpc.Message) {
	switch m.MethodName() {
	case string(mcp.MethodNotificationCancelled):
		s.cancelled(m)
	case string(mcp.MethodNotificationProgress):
		s.progressed(m)
	case string(mcp.MethodNotificationInitialized):
		s.join()
	default:
		if m.MethodName() == string(mcp.MethodNotificationRootsListChanged) {
			s.forgetFolder()
		}
		// Roots changed, or something that we do not know.
		for _, server := range s.hub.deps.Servers() {
			server.Notify(s, m.Raw)
		}
	}
}
