package jsonrpc

import (
	"bytes"
	"fmt"
	"iter"
)

// Span is the byte range [Start, End) of a value inside a message. The zero
// Span means that the value is absent.
type Span struct{ Start, End int }

// Present reports whether the value is there.
func (s Span) Present() bool { return s.End > 0 }

// Of returns the bytes of the span in text, nil when it is absent.
func (s Span) Of(text []byte) []byte {
	if !s.Present() {
		return nil
	}
	return text[s.Start:s.End:s.End]
}

// Kind says what a message is (JSON-RPC 2.0, sections 4 and 5).
type Kind uint8

// Kinds of messages.
const (
	// Request has a method and an id.
	Request Kind = iota + 1
	// Notification has a method and no id.
	Notification
	// Response has an id and a result or an error.
	Response
)

// Message is one JSON-RPC message: the bytes as they came and where its members
// lie in them.
type Message struct {
	// Raw is the whole message without a newline.
	Raw []byte
	// ID, Params, Result and Error are spans of Raw, as is Method, with quotes.
	ID, Method, Params, Result, Error Span
	// Kind follows from which members are present.
	Kind Kind
}

// SyntaxError says that a line is not JSON.
type SyntaxError struct {
	// Offset is the byte at which the text stopped making sense.
	Offset int
	// Want is what should have been there.
	Want string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("not JSON: %s expected at byte %d", e.Want, e.Offset)
}

// InvalidError says that a line is JSON and yet no JSON-RPC message.
type InvalidError struct {
	Problem string
	// ID is the message's id where there is a usable one, for the reply.
	ID []byte
}

func (e *InvalidError) Error() string { return "not a JSON-RPC message: " + e.Problem }

// Parse finds the members of the message in line, which it keeps a reference to.
// It fails with a [*SyntaxError] or an [*InvalidError].
func Parse(line []byte) (Message, error) {
	m := Message{Raw: bytes.TrimSpace(line)}
	s := scanner{text: m.Raw}
	if s.peek() != '{' {
		return m, m.notObject(&s)
	}
	if err := m.members(&s); err != nil {
		return m, err
	}
	if s.at != len(m.Raw) {
		return m, s.fail("the end of the line")
	}
	return m, m.classify()
}

// notObject tells text that is no JSON at all from other JSON, such as the
// batches that MCP does not have.
func (m *Message) notObject(s *scanner) error {
	if err := s.value(0); err != nil {
		return err
	}
	if s.at != len(m.Raw) {
		return s.fail("the end of the line")
	}
	return &InvalidError{Problem: "it is not an object"}
}

// members notes where the members of the message lie.
func (m *Message) members(s *scanner) error {
	more, err := s.enter(0, '{', '}')
	for more {
		var key, value Span
		if key, value, err = s.member(0); err != nil {
			return err
		}
		if err = m.note(key, value); err != nil {
			return err
		}
		more, err = s.more('}')
	}
	return err
}

// note remembers where a member lies.
func (m *Message) note(key, value Span) error {
	slot := m.slot(plain(key.Of(m.Raw)))
	if slot == nil {
		return nil
	}
	if slot.Present() {
		return &InvalidError{Problem: fmt.Sprintf("it has %s twice", key.Of(m.Raw))}
	}
	*slot = value
	return nil
}

// slot is where the span of the member of that name is kept, nil for none.
func (m *Message) slot(name []byte) *Span {
	switch string(name) {
	case "id":
		return &m.ID
	case "method":
		return &m.Method
	case "params":
		return &m.Params
	case "result":
		return &m.Result
	case "error":
		return &m.Error
	}
	return nil
}

// classify sets m.Kind.
func (m *Message) classify() error {
	id := m.ID.Of(m.Raw)
	if id != nil && id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9') {
		if m.Method.Present() || !m.Error.Present() {
			return &InvalidError{Problem: "its id is neither a string nor a number"}
		}
	}
	switch {
	case m.Method.Present() && m.Raw[m.Method.Start] != '"':
		return &InvalidError{Problem: "its method is not a string", ID: id}
	case m.Method.Present() && id != nil:
		m.Kind = Request
	case m.Method.Present():
		m.Kind = Notification
	case id != nil && (m.Result.Present() || m.Error.Present()):
		m.Kind = Response
	default:
		return &InvalidError{Problem: "it has neither a method nor a result", ID: id}
	}
	return nil
}

// ReplyID returns the id of a response, and false for any other message, in a line
// that the other end has parsed already. It looks no further than it must: mostly not
// into the result.
func ReplyID(line []byte) ([]byte, bool) {
	s := scanner{text: bytes.TrimSpace(line)}
	var id Span
	replies := false
	more, err := s.enter(0, '{', '}')
	for more && err == nil {
		var key, value Span
		if key, err = s.key(); err != nil {
			break
		}
		name := string(plain(key.Of(s.text)))
		replies = replies || name == "result" || name == "error"
		if name == "method" || replies && id.Present() {
			break
		}
		if value, err = s.element(0); err != nil {
			break
		}
		if name == "id" {
			id = value
		}
		more, err = s.more('}')
	}
	return id.Of(s.text), replies && id.Present()
}

// Clone is a copy with bytes of its own.
func (m Message) Clone() Message {
	m.Raw = bytes.Clone(m.Raw)
	return m
}

// MethodName is the method without quotes; "" for a response.
func (m Message) MethodName() string {
	quoted := m.Method.Of(m.Raw)
	if string(quoted) == `"tools/call"` { // nearly always; it costs no allocation
		return "tools/call"
	}
	name, _ := Unquote(quoted)
	return name
}

// Lookup finds the value at path, a list of object keys, inside the value at
// base, in a text that [Parse] accepted. The span is relative to text. Something
// on the way that is absent, no object, or there twice makes it report false: of
// two members with one key, receivers differ in which they believe.
func Lookup(text []byte, base Span, path ...string) (Span, bool) {
	for _, name := range path {
		var ok bool
		if base, ok = lookup(text, base, name); !ok {
			return Span{}, false
		}
	}
	return base, true
}

// lookup finds the one member of that name.
func lookup(text []byte, object Span, name string) (Span, bool) {
	var found Span
	s := scanner{text: text[:object.End], at: object.Start}
	more, err := s.enter(0, '{', '}')
	for more {
		var key, value Span
		if key, value, err = s.member(0); err != nil {
			break
		}
		if is(key.Of(text), name) {
			if found.Present() {
				return Span{}, false
			}
			found = value
		}
		more, err = s.more('}')
	}
	return found, err == nil && found.Present()
}

// LookupString is [Lookup] of a string, decoded; false when there is none.
func LookupString(text []byte, base Span, path ...string) (string, bool) {
	span, ok := Lookup(text, base, path...)
	if !ok {
		return "", false
	}
	return Unquote(span.Of(text))
}

// LookupBoth is [Lookup] of two members of the object at base in one pass; one that is
// not found is absent.
func LookupBoth(text []byte, base Span, first, second string) (Span, Span) {
	var found [2]Span
	var twice [2]bool
	for key, value := range Members(text, base) {
		for i, name := range [2]string{first, second} {
			if is(key.Of(text), name) {
				twice[i] = twice[i] || found[i].Present()
				found[i] = value
			}
		}
	}
	for i := range found {
		if twice[i] {
			found[i] = Span{}
		}
	}
	return found[0], found[1]
}

// Elements returns the spans of the elements of the array at base, in a text that
// [Parse] accepted; nil when there is no array.
func Elements(text []byte, base Span) []Span {
	var spans []Span
	s := scanner{text: text[:base.End], at: base.Start}
	more, err := s.enter(0, '[', ']')
	for more {
		var element Span
		if element, err = s.element(0); err != nil {
			break
		}
		spans = append(spans, element)
		more, err = s.more(']')
	}
	if err != nil {
		return nil
	}
	return spans
}

// Members returns the members of the object at base, in a text that [Parse]
// accepted, in order: spans of the keys, with quotes, and of the values. There are
// none when there is no object.
func Members(text []byte, base Span) iter.Seq2[Span, Span] {
	return func(yield func(key, value Span) bool) {
		s := scanner{text: text[:base.End], at: base.Start}
		more, _ := s.enter(0, '{', '}') // the text was parsed before, so nothing fails half-way
		for more {
			key, value, err := s.member(0)
			if err != nil || !yield(key, value) {
				return
			}
			more, _ = s.more('}')
		}
	}
}

// Whole is the span of all of text.
func Whole(text []byte) Span { return Span{0, len(text)} }
