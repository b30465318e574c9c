package endpoint

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"mcp-funnel/core/jsonrpc"
)

// responder writes one HTTP response, with a time limit on every write.
type responder struct {
	w     http.ResponseWriter
	r     *http.Request
	stall time.Duration
}

// expect gives the client so long to send the body of its request. The limit is lifted
// by net/http where the body ends.
func (p responder) expect(within time.Duration) {
	// All our connections have deadlines.
	_ = http.NewResponseController(p.w).SetReadDeadline(time.Now().Add(within))
}

// chunk is how many bytes go out under one time limit.
const chunk = 256 << 10

// write sends data. Who does not take a part of it in time is given up.
func (p responder) write(data []byte) error {
	control := http.NewResponseController(p.w)
	for len(data) > 0 {
		part := data[:min(len(data), chunk)]
		data = data[len(part):]
		_ = control.SetWriteDeadline(time.Now().Add(p.stall)) // all our connections have deadlines
		if _, err := p.w.Write(part); err != nil {
			return err
		}
	}
	err := control.Flush()
	_ = control.SetWriteDeadline(time.Time{}) // the limit is for these writes only
	return err
}

// json sends a whole response.
func (p responder) json(status int, body []byte) {
	p.w.Header().Set("Content-Type", typeJSON)
	p.w.WriteHeader(status)
	_ = p.write(body) // a client that has gone will not miss it
}

// refuse answers a request of the client with an error of ours.
func (p responder) refuse(status int, id []byte, code int, message string) {
	p.json(status, jsonrpc.NewError(id, &jsonrpc.Error{Code: code, Message: message}))
}

// begin sends the head of an event stream.
func (p responder) begin() error {
	h := p.w.Header()
	h.Set("Content-Type", typeStream)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	p.w.WriteHeader(http.StatusOK)
	return p.write(nil)
}

// retryMillis is after how long a client should come back that lost a stream.
const retryMillis = "1000"

// appendPriming appends an event without data, which tells the client where to go on.
func appendPriming(out []byte, id eventID) []byte {
	return append(out, "id: "+id.String()+"\nretry: "+retryMillis+"\ndata: \n\n"...)
}

// appendEvent appends a message as an event. Line breaks between its members, which
// would end the line of the event, become blanks.
func appendEvent(out []byte, e *event) []byte {
	out = append(out, "event: message\nid: "+e.id.String()+"\ndata: "...)
	if bytes.ContainsAny(e.line, "\r\n") {
		out = append(out, flatten(e.line)...)
	} else {
		out = append(out, e.line...)
	}
	return append(out, "\n\n"...)
}

// flatten puts blanks in the place of line breaks.
func flatten(text []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if strings.ContainsRune("\r\n", r) {
			return ' '
		}
		return r
	}, text)
}

// keepAlive is a comment, which clients skip.
const keepAlive = ": still here\n\n"

// events lets a stream flow into the response until it is over or the client has gone.
func (p responder) events(s *session, st *stream, o *outlet) {
	if p.begin() != nil {
		return
	}
	if version, _ := protocolVersion(p.r.Header); version >= primingVersion {
		if p.write(appendPriming(nil, s.prime(st))) != nil {
			return
		}
	}
	silent := time.NewTicker(s.limits.keepAlive)
	defer silent.Stop()
	for {
		events, over := s.take(st, o)
		var out []byte
		for _, e := range events {
			out = appendEvent(out, e)
		}
		if p.write(out) != nil || over {
			return
		}
		if len(events) > 0 {
			silent.Reset(s.limits.keepAlive)
		}
		select {
		case <-o.wake:
		case <-p.r.Context().Done():
			return
		case <-silent.C:
			if p.write([]byte(keepAlive)) != nil {
				return
			}
		}
	}
}
