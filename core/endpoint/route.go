package endpoint

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"mcp-funnel/core/jsonrpc"
)

// linkPrefix begins lines that are for a bridge, about the connection itself.
const linkPrefix = `{"mcp-funnel":`

// errNotRead is why a client is cut off.
var errNotRead = errors.New("a client does not read: too much waits for it")

// Write implements [io.Writer]: it takes whole lines of the hub, and never waits.
func (s *session) Write(lines []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errOver
	}
	for line := range bytes.SplitSeq(lines, []byte{'\n'}) {
		if len(line) > 0 {
			s.route(bytes.Clone(line))
		}
	}
	if s.backlog > s.limits.backlog {
		s.end(errNotRead)
	}
	return len(lines), nil
}

// route puts a message into the stream that it belongs on. s.mu is held.
func (s *session) route(line []byte) {
	if bytes.HasPrefix(line, []byte(linkPrefix)) {
		s.linked(line)
		return
	}
	if id, ok := jsonrpc.ReplyID(line); ok {
		if st := s.flying[string(id)]; st != nil { // else nobody waits for it any more
			s.answer(st, line)
		}
		return
	}
	m, err := jsonrpc.Parse(line)
	if err != nil {
		return // the hub writes what it has parsed
	}
	if st := s.streamFor(m); st != nil {
		s.add(st, line)
	}
}

// answer puts the response into its stream, which ends with it. s.mu is held.
func (s *session) answer(st *stream, line []byte) {
	delete(s.flying, string(st.request))
	st.complete = true
	s.add(st, line)
}

// linked takes what the app says to a bridge. A request that it hands back has not run;
// unlike a bridge we cannot bring it to another app.
func (s *session) linked(line []byte) {
	returned, ok := jsonrpc.Lookup(line, jsonrpc.Whole(line), "return")
	if !ok {
		return
	}
	m, err := jsonrpc.Parse(returned.Of(line))
	if err != nil {
		return
	}
	if st := s.flying[string(m.ID.Of(m.Raw))]; st != nil {
		s.fail(st, "MCP Funnel is being replaced by another instance; the request has not run, send it again")
	}
}

// add puts a message into a stream. s.mu is held.
func (s *session) add(st *stream, line []byte) {
	st.last++
	e := &event{stream: st, line: line, id: eventID{listening: st.listening, stream: st.number, event: st.last}}
	st.events = append(st.events, e)
	if st.outlet == nil {
		s.store.keep(e)
		return
	}
	s.backlog += len(line)
	st.outlet.nudge()
}

// streamFor chooses the stream of a request or a notification, nil for none. The hub
// says only for which client it is, and mostly a client has one request under way:
// then it is about that. s.mu is held.
func (s *session) streamFor(m jsonrpc.Message) *stream {
	method := m.MethodName()
	if method == "notifications/progress" {
		token, _ := jsonrpc.Lookup(m.Raw, m.Params, "progressToken")
		return s.progressing(token.Of(m.Raw))
	}
	listening, opened := s.listener()
	flying := s.reachable()
	news := strings.HasSuffix(method, "/list_changed") || method == "notifications/resources/updated"
	switch {
	case news && opened:
		return listening
	case len(flying) == 1:
		return flying[0]
	case listening != nil && listening.outlet != nil:
		return listening
	case len(flying) > 0:
		return flying[0]
	case listening != nil:
		return listening
	}
	return s.open(true) // it waits there until somebody listens
}

// progressing is the stream of the request with that progress token.
func (s *session) progressing(token []byte) *stream {
	for _, st := range s.flying {
		if st.token != nil && bytes.Equal(st.token, token) {
			return st
		}
	}
	return nil
}

// reachable are the streams of unanswered requests whose client is there or can come
// back, the oldest first.
func (s *session) reachable() []*stream {
	list := slices.DeleteFunc(slices.Collect(maps.Values(s.flying)), func(st *stream) bool { return !st.reachable() })
	slices.SortFunc(list, func(a, b *stream) int { return cmp.Compare(a.number, b.number) })
	return list
}

// listeners are the listening streams, the newest first.
func (s *session) listeners() []*stream {
	list := slices.DeleteFunc(slices.Collect(maps.Values(s.streams)), func(st *stream) bool { return !st.listening })
	slices.SortFunc(list, func(a, b *stream) int { return cmp.Compare(b.number, a.number) })
	return list
}

// listener is the listening stream to use, nil for none: the newest one with a client
// on it, else the newest. opened: a client has listened on it.
func (s *session) listener() (st *stream, opened bool) {
	list := s.listeners()
	for _, st := range list {
		if st.outlet != nil {
			return st, true
		}
	}
	if len(list) == 0 {
		return nil, false
	}
	return list[0], list[0].opened
}
