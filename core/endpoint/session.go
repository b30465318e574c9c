package endpoint

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"mcp-funnel/core/hub"
	"mcp-funnel/core/jsonrpc"
)

// session is one client of the endpoint. To the hub it is the [hub.Stream] of a session
// of its own.
type session struct {
	// key is what the client names it by, which is a secret of theirs.
	key    string
	limits limits
	// in takes what the client sends, a line each, to the hub, which reads it from lines.
	in    *io.PipeWriter
	lines *io.PipeReader
	// end ends it; over is closed when it has ended.
	end  context.CancelCauseFunc
	over chan struct{}

	mu     sync.Mutex
	closed bool
	// users are the HTTP requests under way; used is when the last one ended.
	users int
	used  time.Time

	lastStream int
	// streams by their numbers; flying are those of requests without a response, by the
	// request's id on the wire.
	streams map[int]*stream
	flying  map[string]*stream
	// store keeps what the client may come back for; backlog is how many bytes wait
	// besides for outlets that take their time.
	store   store
	backlog int
}

func newSession(key string, l limits) *session {
	s := &session{
		key: key, limits: l, over: make(chan struct{}), used: time.Now(),
		streams: make(map[int]*stream), flying: make(map[string]*stream),
		store: store{maxEvents: l.keptEvents, maxBytes: l.keptBytes},
	}
	s.lines, s.in = io.Pipe()
	return s
}

// run serves the session until its client ends it, it is cut off, or ctx ends.
func (s *session) run(ctx context.Context, id string, deps Deps) error {
	defer close(s.over)
	defer s.finish()
	return deps.Serve(ctx, id, s, bufio.NewReader(s.lines), hub.Peer{})
}

// errOver is told to those who still write to a session that has ended.
var errOver = errors.New("the session has ended")

// Close implements [io.Closer]: the hub reads and writes no more.
func (s *session) Close() error { return s.lines.CloseWithError(errOver) }

// finish answers what is unanswered, and lets all responses end.
func (s *session) finish() {
	_ = s.Close() // it cannot fail
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, st := range s.flying {
		s.fail(st, "the session ended before the answer")
	}
	for _, st := range s.streams {
		st.outlet.nudge()
	}
}

// fail answers a request with an error of ours.
func (s *session) fail(st *stream, message string) {
	s.answer(st, jsonrpc.NewError(st.request, &jsonrpc.Error{Code: jsonrpc.CodeServerError, Message: message}))
}

// feed gives the hub a message of the client, in one line.
func (s *session) feed(m jsonrpc.Message) error {
	if _, err := s.in.Write(append(m.Raw, '\n')); err != nil {
		return fmt.Errorf("handing a message over: %w", err)
	}
	if m.MethodName() == "notifications/cancelled" {
		id, _ := jsonrpc.Lookup(m.Raw, m.Params, "requestId")
		s.cancelled(id.Of(m.Raw))
	}
	return nil
}

// cancelled ends the stream of a request that gets no response.
func (s *session) cancelled(id []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.flying[string(id)]; st != nil {
		delete(s.flying, string(id))
		st.complete = true
		st.outlet.nudge()
	}
}

// enter notes an HTTP request for the session; false when it has ended. leave must
// follow.
func (s *session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.users++
	}
	return !s.closed
}

func (s *session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	s.used = time.Now()
}

// unused is since when nobody is connected; false when somebody is.
func (s *session) unused() (since time.Time, unused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.users == 0
}

// fly opens the stream of a request; nil when one with that id is under way.
func (s *session) fly(m jsonrpc.Message, o *outlet) *stream {
	id := m.ID.Of(m.Raw)
	token, _ := jsonrpc.Lookup(m.Raw, m.Params, "_meta", "progressToken")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flying[string(id)] != nil {
		return nil
	}
	st := s.open(false)
	st.request, st.token, st.outlet = bytes.Clone(id), bytes.Clone(token.Of(m.Raw)), o
	s.flying[string(id)] = st
	if s.closed {
		s.fail(st, errOver.Error())
	}
	return st
}

// open makes a stream. s.mu is held.
func (s *session) open(listening bool) *stream {
	s.lastStream++
	st := &stream{number: s.lastStream, listening: listening}
	s.streams[st.number] = st
	return st
}

// take gives an outlet the events that none has been given. over: nothing will follow,
// or another outlet has taken its place.
func (s *session) take(st *stream, o *outlet) (events []*event, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.outlet != o {
		return nil, true
	}
	events = append(events, st.waiting()...)
	st.sent = len(st.events)
	for _, e := range events {
		if !e.kept {
			s.backlog -= len(e.line)
		}
		s.store.keep(e)
	}
	st.primed = st.primed || len(events) > 0
	return events, st.complete || s.closed
}

// sole gives an outlet the response when that is all there is to a stream; ready says
// that there is something, or that nothing will be.
func (s *session) sole(st *stream) (response []byte, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.complete && len(st.events) == 1 && st.last == 1 {
		response = st.events[0].line
	}
	return response, len(st.events) > 0 || st.complete || s.closed
}

// prime notes that the client is about to know the stream, and returns the id to go on
// from.
func (s *session) prime(st *stream) eventID {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.primed = true
	first := st.last
	if waiting := st.waiting(); len(waiting) > 0 {
		first = waiting[0].id.event - 1
	}
	return eventID{listening: st.listening, stream: st.number, event: first}
}

// detach takes an outlet off. What is left waits for the client, if it can come back.
func (s *session) detach(st *stream, o *outlet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.outlet != o {
		return
	}
	st.outlet = nil
	for _, e := range append([]*event(nil), st.waiting()...) {
		if !e.kept {
			s.backlog -= len(e.line)
			s.store.keep(e)
		}
	}
	if !st.primed {
		s.discard(st)
	}
	for _, st := range s.streams { // those of which nothing is kept any more
		if st.complete && st.outlet == nil && len(st.events) == 0 {
			s.discard(st)
		}
	}
}

// discard ends a stream for good. s.mu is held.
func (s *session) discard(st *stream) {
	for _, e := range st.waiting() {
		if !e.kept {
			s.backlog -= len(e.line)
		}
	}
	s.store.forget(st)
	delete(s.streams, st.number)
	if s.flying[string(st.request)] == st {
		delete(s.flying, string(st.request))
	}
}
