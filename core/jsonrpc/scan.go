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

// value moves over one value of any kind, which lies inside depth others.
func (s *scanner) value(depth int) error {
	switch c := s.peek(); c {
	case '"':
		return s.str()
	case '{':
		return s.object(depth)
	case '[':
		return s.array(depth)
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		s.number()
		return nil
	}
	return s.fail("a value")
}

// literal moves over word.
func (s *scanner) literal(word string) error {
	if end := s.at + len(word); end <= len(s.text) && string(s.text[s.at:end]) == word {
		s.at = end
		return nil
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

// object moves over an object. Who wants to see its members loops in the same way.
func (s *scanner) object(depth int) error {
	more, err := s.enter(depth, '{', '}')
	for more {
		if _, _, err = s.member(depth); err != nil {
			return err
		}
		more, err = s.more('}')
	}
	return err
}

// array moves over an array.
func (s *scanner) array(depth int) error {
	more, err := s.enter(depth, '[', ']')
	for more {
		if _, err = s.element(depth); err != nil {
			return err
		}
		more, err = s.more(']')
	}
	return err
}

// enter moves over the opening bracket of an object or array that lies inside
// depth others, and over the closing one when nothing is between them; it reports
// whether a member or element follows.
func (s *scanner) enter(depth int, opening, closing byte) (bool, error) {
	if depth >= maxDepth {
		return false, s.fail("less nesting")
	}
	if s.peek() != opening {
		return false, s.fail("an opening bracket")
	}
	s.at++
	s.space()
	if s.peek() == closing {
		s.at++
		return false, nil
	}
	return true, nil
}

// member moves over `"key": value`; key still has its quotes.
func (s *scanner) member(depth int) (key, value Span, err error) {
	if key, err = s.key(); err != nil {
		return Span{}, Span{}, err
	}
	value, err = s.element(depth)
	return key, value, err
}

// key moves over `"key": `, up to the value.
func (s *scanner) key() (Span, error) {
	start := s.at
	if err := s.str(); err != nil {
		return Span{}, err
	}
	end := s.at
	s.space()
	if s.peek() != ':' {
		return Span{}, s.fail("a colon")
	}
	s.at++
	s.space()
	return Span{start, end}, nil
}

// element moves over a value inside an object or array.
func (s *scanner) element(depth int) (Span, error) {
	start := s.at
	if err := s.value(depth + 1); err != nil {
		return Span{}, err
	}
	return Span{start, s.at}, nil
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

// is reports whether the quoted key stands for name.
func is(quoted []byte, name string) bool { return string(plain(quoted)) == name }

// plain is a key without its quotes, and without escapes, which nobody writes.
func plain(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	text, ok := Unquote(quoted)
	if !ok {
		return quoted // it stands for no name of ours
	}
	return []byte(text)
}

// Unquote decodes a JSON string. It reports false when value is not one.
func Unquote(value []byte) (string, bool) {
	last := len(value) - 1
	if last < 1 || value[0] != '"' || value[last] != '"' {
		return "", false
	}
	if inner := value[1:last]; bytes.IndexByte(inner, '\\') < 0 && bytes.IndexByte(inner, '"') < 0 {
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
