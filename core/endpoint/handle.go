package endpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// ServeHTTP implements [http.Handler].
func (v *serving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := responder{w: w, r: r, stall: v.limits.stall}
	if r.ContentLength != 0 {
		p.expect(v.limits.readBody) // also where it is refused: what is left of it is skipped
	}
	if status, why := v.guard.check(r); status != 0 {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, why, status)
		return
	}
	switch r.Method {
	case http.MethodPost:
		v.post(p)
	case http.MethodGet:
		v.get(p)
	case http.MethodDelete:
		if s := v.known(p); s != nil {
			defer s.leave()
			v.remove(s, errDeleted)
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "there are only GET, POST and DELETE", http.StatusMethodNotAllowed)
	}
}

// errDeleted is the end of a session that its client wanted.
var errDeleted = errors.New("the client ended its session")

// post takes one message.
func (v *serving) post(p responder) {
	switch accept := p.r.Header.Values("Accept"); {
	case !isJSON(p.r.Header):
		http.Error(p.w, "a message is "+typeJSON, http.StatusUnsupportedMediaType)
		return
	case !accepts(accept, typeJSON) || !accepts(accept, typeStream):
		http.Error(p.w, "answers are "+typeJSON+" or "+typeStream+": accept both", http.StatusNotAcceptable)
		return
	}
	m, ok := v.message(p)
	if !ok {
		return
	}
	s := v.sessionOf(p, m)
	if s == nil {
		return
	}
	defer s.leave()
	if m.Kind == jsonrpc.Request {
		v.call(p, s, m)
		return
	}
	if s.feed(m) != nil {
		http.Error(p.w, unknownSession, http.StatusNotFound)
		return
	}
	p.w.WriteHeader(http.StatusAccepted)
}

// message reads the body, or says what is wrong with it.
func (v *serving) message(p responder) (m jsonrpc.Message, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(p.w, p.r.Body, int64(v.limits.body)))
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		http.Error(p.w, "the message is too long", http.StatusRequestEntityTooLarge)
		return m, false
	}
	if err != nil {
		p.w.Header().Set("Connection", "close")
		http.Error(p.w, "the message did not arrive in time, or whole", http.StatusRequestTimeout)
		return m, false
	}
	if m, err = parse(body); err != nil {
		p.json(http.StatusBadRequest, jsonrpc.NewRefusal(err))
		return m, false
	}
	return m, true
}

// parse reads a message and brings it into one line, for that is how messages are told
// from each other behind here. Line breaks can be taken out only where they are between
// members.
func parse(body []byte) (jsonrpc.Message, error) {
	body = bytes.TrimSpace(body)
	if bytes.ContainsAny(body, "\r\n") {
		if !json.Valid(body) {
			return jsonrpc.Message{}, &jsonrpc.SyntaxError{Want: "JSON"}
		}
		body = flatten(body)
	}
	return jsonrpc.Parse(body)
}

// call carries out a request: its answer is JSON if nothing else comes before it and it
// comes soon, and the end of an event stream otherwise.
func (v *serving) call(p responder, s *session, m jsonrpc.Message) {
	o := newOutlet()
	st := s.fly(m, o)
	if st == nil {
		p.refuse(http.StatusBadRequest, m.ID.Of(m.Raw), jsonrpc.CodeInvalidRequest, "another request with this id is still running")
		return
	}
	defer s.detach(st, o)
	// Where the session ends meanwhile, the stream says so.
	_ = s.feed(m)
	patience := time.NewTimer(v.limits.stream)
	defer patience.Stop()
	for {
		response, ready := s.sole(st)
		if response != nil {
			p.json(http.StatusOK, response)
			return
		}
		if ready {
			p.events(s, st, o)
			return
		}
		select {
		case <-o.wake:
		case <-patience.C:
			p.events(s, st, o)
			return
		case <-p.r.Context().Done():
			return
		}
	}
}

// get opens a listening stream, or goes on with one that broke.
func (v *serving) get(p responder) {
	if !accepts(p.r.Header.Values("Accept"), typeStream) {
		http.Error(p.w, "the answer is "+typeStream+": accept it", http.StatusNotAcceptable)
		return
	}
	s := v.known(p)
	if s == nil {
		return
	}
	defer s.leave()
	o := newOutlet()
	var st *stream
	if last := p.r.Header.Get(headerLastID); last == "" {
		st = s.listen(o)
	} else {
		id, ok := parseEventID(last)
		if !ok {
			http.Error(p.w, headerLastID+" is none of this endpoint", http.StatusBadRequest)
			return
		}
		if st = s.resume(id, o); st == nil {
			p.w.WriteHeader(http.StatusNoContent) // do not come back for it
			return
		}
	}
	defer s.detach(st, o)
	p.events(s, st, o)
}

// What is said of sessions.
const (
	noSession      = "the header " + headerSession + " is missing; begin with initialize"
	unknownSession = "there is no such session any more; begin a new one with initialize"
	wrongVersion   = "the header " + headerVersion + " names a version that is not known here"
)

// known finds the session that the request names, and enters it; nil when it was
// answered with what is wrong.
func (v *serving) known(p responder) *session {
	key := p.r.Header.Get(headerSession)
	if key == "" {
		http.Error(p.w, noSession, http.StatusBadRequest)
		return nil
	}
	if _, ok := protocolVersion(p.r.Header); !ok {
		http.Error(p.w, wrongVersion, http.StatusBadRequest)
		return nil
	}
	s := v.find(key)
	if s == nil || !s.enter() {
		http.Error(p.w, unknownSession, http.StatusNotFound)
		return nil
	}
	return s
}

// sessionOf finds the session of a message, or begins one with an initialize that names
// none, and enters it; nil when it was answered with what is wrong.
func (v *serving) sessionOf(p responder, m jsonrpc.Message) *session {
	method := mcp.MCPMethod(m.MethodName())
	fresh := p.r.Header.Get(headerSession) == ""
	if fresh && method == mcp.MethodInitialize && m.Kind == jsonrpc.Request {
		s := v.begin()
		if s == nil {
			p.w.Header().Set("Retry-After", "60")
			http.Error(p.w, "there are too many sessions", http.StatusServiceUnavailable)
			return nil
		}
		p.w.Header().Set(headerSession, s.key)
		return s
	}
	if fresh && m.Kind == jsonrpc.Request {
		code, message := jsonrpc.CodeInvalidRequest, noSession
		if method == "server/discover" { // of the wire of 2026, which is not spoken here
			code, message = jsonrpc.CodeMethodNotFound, `method "server/discover" is not known here; begin with initialize`
		}
		p.refuse(http.StatusBadRequest, m.ID.Of(m.Raw), code, message)
		return nil
	}
	return v.known(p)
}
