package jsonrpc

import (
	"bytes"
	"encoding/json"
)

// maxDepth bounds the nesting of a message: deeper ones are hostile, and the
// scanner recurses.
const maxDepth = 1000

// scanner walks over JSON text and remembers where it failed.
type scanner struct {
	text []byte
	// at is the offset of the next byte to look at.
	at int
}

// fail reports that the text is not JSON at the present offset.
func (s *scanner) fail(want string) error {
	return &SyntaxError{Offset: s.at, Want: want}
}

// space moves over white space.
func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// value moves over one value of any kind.
func (s *scanner) value(depth int) error {
	switch c := s.peek(); {
	case c == '"':
		return s.str()
	case c == '{':
		return s.object(depth, nil)
	case c == '[':
		return s.array(depth, nil)
	case c == '-' || c >= '0' && c <= '9':
		s.number()
		return nil
	}
	for _, literal := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.text[s.at:], []byte(literal)) {
			s.at += len(literal)
			return nil
		}
	}
	return s.fail("a value")
}

// str moves over a string. A quote ends it unless an odd number of backslashes
// stands before it.
func (s *scanner) str() error {
	if s.peek() != '"' {
		return s.fail("a string")
	}
	for i := s.at + 1; ; {
		quote := bytes.IndexByte(s.text[i:], '"')
		if quote < 0 {
			return s.fail("the end of a string")
		}
		end := i + quote
		slashes := 0
		for end-1-slashes >= i && s.text[end-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			s.at = end + 1
			return nil
		}
		i = end + 1
	}
}

// number moves over everything that may be part of a number.
func (s *scanner) number() {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c >= '0' && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
			s.at++
		default:
			return
		}
	}
}

// object moves over an object and shows each member to visit, if there is one;
// key still has its quotes.
func (s *scanner) object(depth int, visit func(key, value Span) error) error {
	if depth >= maxDepth {
		return s.fail("less nesting")
	}
	if s.peek() != '{' {
		return s.fail("an object")
	}
	s.at++
	s.space()
	if s.peek() == '}' {
		s.at++
		return nil
	}
	for {
		if err := s.member(depth, visit); err != nil {
			return err
		}
		more, err := s.more('}')
		if !more {
			return err
		}
	}
}

// member moves over `"key": value`.
func (s *scanner) member(depth int, visit func(key, value Span) error) error {
	key := Span{Start: s.at}
	if err := s.str(); err != nil {
		return err
	}
	key.End = s.at
	s.space()
	if s.peek() != ':' {
		return s.fail("a colon")
	}
	s.at++
	s.space()
	value := Span{Start: s.at}
	if err := s.value(depth + 1); err != nil {
		return err
	}
	value.End = s.at
	if visit == nil {
		return nil
	}
	return visit(key, value)
}

// array moves over an array and shows each element to visit, if there is one.
func (s *scanner) array(depth int, visit func(element Span) error) error {
	if depth >= maxDepth {
		return s.fail("less nesting")
	}
	if s.peek() != '[' {
		return s.fail("an array")
	}
	s.at++
	s.space()
	if s.peek() == ']' {
		s.at++
		return nil
	}
	for {
		element := Span{Start: s.at}
		if err := s.value(depth + 1); err != nil {
			return err
		}
		element.End = s.at
		if visit != nil {
			if err := visit(element); err != nil {
				return err
			}
		}
		more, err := s.more(']')
		if !more {
			return err
		}
	}
}

// more moves over the comma between two members or elements, or over the closing
// bracket; it reports whether another one follows.
func (s *scanner) more(closing byte) (bool, error) {
	s.space()
	switch s.peek() {
	case ',':
		s.at++
		s.space()
		return true, nil
	case closing:
		s.at++
		return false, nil
	}
	return false, s.fail("a comma or a closing bracket")
}

// is reports whether the quoted key stands for name, also when it is written
// with escapes.
func is(quoted []byte, name string) bool {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == name
	}
	text, ok := Unquote(quoted)
	return ok && text == name
}

// Unquote decodes a JSON string. It reports false when value is not one.
func Unquote(value []byte) (string, bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	if inner := value[1 : len(value)-1]; bytes.IndexByte(inner, '\\') < 0 && value[len(value)-1] == '"' {
		return string(inner), true
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return "", false
	}
	return text, true
}

// Quote encodes text as a JSON string, leaving <, > and & as they are.
func Quote(text string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	// A string always encodes; invalid UTF-8 becomes U+FFFD.
	_ = enc.Encode(text)
	return bytes.TrimRight(out.Bytes(), "\n")
}
