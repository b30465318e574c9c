package jsonrpc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// seeds are lines of every kind for the fuzz targets.
var seeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[1,2,{"b":null}]}}}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q","reason":"\"\\\""}}`,
	`{"id":"\u0069","result":{"content":[{"type":"text","text":"}]\"{["}],"big":1e400,"n":-0.0}}`,
	`{"id":null,"error":{"code":-32700,"message":"ü 🚀","data":[true,false]}}`,
	" {\t\"id\" : 1 ,\r\"method\" : \"m\" } \r",
	`{"id":1,"method":"m","\u0069d":2}`,
	`[{"id":1,"method":"m"}]`,
	`{"a":"\\`, `{"a":"\\\"}`, `{"a":1,}`, `{"a":[}`, `npm warn exec`, "\xef\xbb\xbf{}", "{\"\xff\":1}",
	strings.Repeat(`{"a":[`, 600), strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth),
}

func FuzzParse(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		m, err := Parse(line)
		if !bytes.Equal(line, before) {
			t.Fatal("Parse changed the line")
		}
		_, noJSON := errors.AsType[*SyntaxError](err)
		_, noMessage := errors.AsType[*InvalidError](err)
		if err != nil && !noJSON && !noMessage {
			t.Fatalf("err is a %T", err)
		}
		if json.Valid(line) && depth(line) <= maxDepth && noJSON {
			t.Fatalf("JSON was refused: %v", err)
		}
		if err == nil {
			if problem := imbalance(m.Raw); problem != "" {
				t.Fatalf("accepted with %s", problem)
			}
			checkFraming(t, line)
			checkReading(t, m)
		}
		if members := topLevel(line); members != nil && depth(line) <= maxDepth {
			checkMembers(t, m, err, members)
		}
	})
}

// imbalance looks at text with a second, simpler eye: whether it is one bracketed
// thing from its first byte to its last.
func imbalance(text []byte) string {
	var open []byte
	inString, escaped := false, false
	for i, c := range text {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = c == '\\', c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			open = append(open, c+2) // the closing one in ASCII
		case c == '}' || c == ']':
			if len(open) == 0 || open[len(open)-1] != c {
				return "a bracket that closes nothing"
			}
			open = open[:len(open)-1]
		}
		if len(open) == 0 && i < len(text)-1 {
			return "text behind its end"
		}
	}
	if inString || len(open) > 0 {
		return "something left open"
	}
	return ""
}

// depth is how deep brackets are nested in valid JSON.
func depth(text []byte) int {
	deepest, now := 0, 0
	inString, escaped := false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = c == '\\', c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// checkFraming sends an accepted line and another after it through a Reader.
func checkFraming(t *testing.T, line []byte) {
	t.Helper()
	if bytes.IndexByte(line, '\n') >= 0 {
		return // it never came as one line
	}
	r := NewReader(bytes.NewReader(slices.Concat(line, []byte("\nnext\n"))), 0)
	if got := readAll(t, r); len(got) != 2 || got[0] != string(line) || got[1] != "next" {
		t.Fatalf("framed, it reads as %q", got)
	}
}

// checkReading looks for inconsistencies between the ways to read a message.
func checkReading(t *testing.T, m Message) {
	t.Helper()
	seen := make(map[string]int)
	for key, value := range Members(m.Raw, Whole(m.Raw)) {
		name, ok := Unquote(key.Of(m.Raw))
		if !ok {
			continue // an escape that there is not
		}
		seen[name]++
		if found, ok := Lookup(m.Raw, Whole(m.Raw), name); seen[name] == 1 && ok && found != value {
			t.Fatalf("Lookup(%q) = %v, Members say %v", name, found, value)
		}
		end := value.Start
		for _, element := range Elements(m.Raw, value) {
			if element.Start <= end-1 || element.End > value.End {
				t.Fatalf("element %v reaches out of %v", element, value)
			}
			end = element.End
		}
	}
	for name, times := range seen {
		if _, ok := Lookup(m.Raw, Whole(m.Raw), name); ok != (times == 1) {
			t.Fatalf("Lookup(%q) = %v, though it is there %d times", name, ok, times)
		}
	}
}

// topLevel decodes an object with encoding/json; nil when it is none, or when a
// key stands there twice.
func topLevel(line []byte) map[string]json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(line))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') || !json.Valid(line) {
		return nil
	}
	members := make(map[string]json.RawMessage)
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		name := key.(string)
		if _, twice := members[name]; twice || dec.Decode(&value) != nil {
			return nil
		}
		members[name] = value
	}
	return members
}

// checkMembers holds what Parse made of an object against what encoding/json did.
func checkMembers(t *testing.T, m Message, err error, members map[string]json.RawMessage) {
	t.Helper()
	id, method := members["id"], members["method"]
	outcome := members["result"] != nil || members["error"] != nil
	usable := id == nil || id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9'
	var want Kind
	switch {
	case method != nil && method[0] == '"' && usable && id != nil:
		want = Request
	case method != nil && method[0] == '"' && id == nil:
		want = Notification
	case method == nil && id != nil && outcome && (usable || members["error"] != nil):
		want = Response
	}
	if (err == nil) != (want != 0) || err == nil && m.Kind != want {
		t.Fatalf("kind %d, %v; want %d", m.Kind, err, want)
	}
	if err != nil {
		return
	}
	for name, span := range map[string]Span{"id": m.ID, "method": m.Method, "params": m.Params, "result": m.Result, "error": m.Error} {
		if got := span.Of(m.Raw); !bytes.Equal(got, members[name]) {
			t.Fatalf("%s is %q, want %q", name, got, members[name])
		}
	}
	var name string
	if json.Unmarshal(method, &name) == nil && strings.ToValidUTF8(m.MethodName(), "\ufffd") != strings.ToValidUTF8(name, "\ufffd") &&
		!bytes.ContainsRune(method, '\ufffd') && !invalidUTF8(method) {
		t.Fatalf("method name %q, want %q", m.MethodName(), name)
	}
}

func invalidUTF8(text []byte) bool { return !bytes.Equal(bytes.ToValidUTF8(text, nil), text) }

func FuzzReader(f *testing.F) {
	f.Add([]byte("{\"a\":1}\n\r\n{\"b\":2}\r\nlast"), []byte{0, 3, 255}, uint16(10), uint16(16))
	f.Add([]byte("\n\n \n"), []byte{1}, uint16(0), uint16(100))
	f.Add([]byte(`{"id":1,"x":"`+strings.Repeat("x", 100)+"\"}\nnext\n"), []byte{7}, uint16(50), uint16(20))
	f.Add([]byte(strings.Repeat("x", 90)+"\ny"), []byte{20, 1}, uint16(45), uint16(17))
	f.Fuzz(func(t *testing.T, stream, sizes []byte, limit, buffer uint16) {
		if len(sizes) == 0 {
			sizes = []byte{0}
		}
		maximum := int(limit) + 1
		var want []string
		for line := range bytes.SplitSeq(stream, []byte("\n")) {
			switch {
			case len(line) > maximum:
				ends := &TooLongError{Head: line[:min(len(line), endsOfLine)], Tail: line[max(0, len(line)-endsOfLine):]}
				want = append(want, "TOO LONG "+string(ends.ID()))
			case len(bytes.TrimSpace(line)) > 0:
				want = append(want, string(line))
			}
		}
		source := &chunks{text: string(stream), sizes: sizes}
		got := readAll(t, NewReader(bufio.NewReaderSize(io.Reader(source), int(buffer)), maximum))
		if !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func FuzzSplice(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed), []byte(`"our id"`))
		f.Add([]byte(seed), []byte(`7`))
	}
	f.Fuzz(func(t *testing.T, line, id []byte) {
		m, err := Parse(line)
		if err != nil || !m.ID.Present() {
			return
		}
		spliced := Splice(m.Raw, Edit{Span: m.ID, With: id})
		if !bytes.Equal(spliced, slices.Concat(m.Raw[:m.ID.Start], id, m.Raw[m.ID.End:])) {
			t.Fatalf("with id %q: %q became %q", id, m.Raw, spliced)
		}
		// And back again, when the new one is an id.
		if !json.Valid(id) || bytes.IndexByte([]byte(`"-0123456789`), id[0]) < 0 {
			return
		}
		other, err := Parse(spliced)
		if err != nil {
			t.Fatalf("with id %s it is no message any more: %v", id, err)
		}
		if got := other.ID.Of(spliced); !bytes.Equal(got, bytes.TrimSpace(id)) {
			t.Fatalf("id is %q, want %q", got, id)
		}
		if back := Splice(spliced, Edit{Span: Span{m.ID.Start, m.ID.Start + len(id)}, With: m.ID.Of(m.Raw)}); !bytes.Equal(back, m.Raw) {
			t.Fatalf("%q came back as %q", m.Raw, back)
		}
	})
}
