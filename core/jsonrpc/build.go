package jsonrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Edit replaces the bytes of a span.
type Edit struct {
	Span Span
	With []byte
}

// Splice returns a new message that is text with the edits made, which must be
// in the order of the text and not overlap. There is room behind it for the
// newline of a frame.
func Splice(text []byte, edits ...Edit) []byte {
	size := len(text) + 1
	for _, e := range edits {
		size += len(e.With) - (e.Span.End - e.Span.Start)
	}
	out := make([]byte, 0, size)
	at := 0
	for _, e := range edits {
		out = append(out, text[at:e.Span.Start]...)
		out = append(out, e.With...)
		at = e.Span.End
	}
	return append(out, text[at:]...)
}

// Rewrite is [Splice] for a message; its members are where they come to lie, so that
// the copy need not be parsed.
func Rewrite(m Message, edits ...Edit) Message {
	m.Raw = Splice(m.Raw, edits...)
	for _, span := range []*Span{&m.ID, &m.Method, &m.Params, &m.Result, &m.Error} {
		*span = span.after(edits)
	}
	return m
}

// after is where the span lies after the edits, each of which is inside it, all of
// it, or outside.
func (s Span) after(edits []Edit) Span {
	moved := s
	for _, e := range edits {
		longer := len(e.With) - (e.Span.End - e.Span.Start)
		if s.Present() && e.Span.End <= s.Start {
			moved.Start += longer
		}
		if s.Present() && e.Span.Start < s.End {
			moved.End += longer
		}
	}
	return moved
}

// Codes of JSON-RPC 2.0, section 5.1.
const (
	CodeParseError     = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternalError  = -32603
	// CodeServerError is the first code of the range left to implementations.
	CodeServerError = -32000
)

// Error is the error member of a response.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// NewRequest builds a request; params may be nil.
func NewRequest(id int64, method string, params []byte) []byte {
	return build(strconv.AppendInt(nil, id, 10), method, params)
}

// NewNotification builds a notification; params may be nil.
func NewNotification(method string, params []byte) []byte {
	return build(nil, method, params)
}

func build(id []byte, method string, params []byte) []byte {
	out := make([]byte, 0, len(id)+len(method)+len(params)+64)
	out = append(out, `{"jsonrpc":"2.0"`...)
	if id != nil {
		out = append(append(out, `,"id":`...), id...)
	}
	out = append(append(out, `,"method":`...), Quote(method)...)
	if params != nil {
		out = append(append(out, `,"params":`...), params...)
	}
	return append(out, '}')
}

// NewResult builds the reply to the request with that id, given as it was on
// the wire.
func NewResult(id, result []byte) []byte {
	out := make([]byte, 0, len(id)+len(result)+40)
	out = append(append(out, `{"jsonrpc":"2.0","id":`...), id...)
	out = append(append(out, `,"result":`...), result...)
	return append(out, '}')
}

// NewError builds the error reply to the request with that id, given as it was
// on the wire; nil stands for an id that could not be read.
func NewError(id []byte, e *Error) []byte {
	if id == nil {
		id = []byte("null")
	}
	out := make([]byte, 0, len(id)+len(e.Message)+len(e.Data)+80)
	out = append(append(out, `{"jsonrpc":"2.0","id":`...), id...)
	out = append(out, `,"error":{"code":`...)
	out = strconv.AppendInt(out, int64(e.Code), 10)
	out = append(append(out, `,"message":`...), Quote(e.Message)...)
	if len(e.Data) > 0 {
		out = append(append(out, `,"data":`...), e.Data...)
	}
	return append(out, "}}"...)
}

// NewRefusal builds the error reply to a line that [Parse] did not accept: a parse
// error without an id, or an invalid request with the id if there is a usable one.
func NewRefusal(err error) []byte {
	if invalid, ok := errors.AsType[*InvalidError](err); ok {
		return NewError(invalid.ID, &Error{Code: CodeInvalidRequest, Message: err.Error()})
	}
	return NewError(nil, &Error{Code: CodeParseError, Message: err.Error()})
}
