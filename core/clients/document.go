package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// serversKey is the key of the object that holds the servers, in all clients so far.
const serversKey = "mcpServers"

// byteOrderMark may begin a file; offsets count it, the parsers do not see it.
const byteOrderMark = "\xEF\xBB\xBF"

// document is the text of a client's file and the places of its members.
type document struct {
	file string
	text []byte
	// base is the length of the byte order mark. The places that hujson gives
	// count from there.
	base int
	// root is nil when the text is blank, as that of a missing file is.
	root *hujson.Value
}

// parseDocument understands text, which has to be one JSON object or blank. Anything
// else is a [*SyntaxError].
func parseDocument(file string, text []byte) (*document, error) {
	d := &document{file: file, text: text}
	if bytes.HasPrefix(text, []byte(byteOrderMark)) {
		d.base = len(byteOrderMark)
	}
	content := text[d.base:]
	if len(bytes.Trim(content, " \t\r\n")) == 0 {
		return d, nil
	}
	// The other parser takes comments and trailing commas, which clients do not.
	var whole json.RawMessage
	if err := json.Unmarshal(content, &whole); err != nil {
		return nil, d.notJSON(err)
	}
	root, err := hujson.Parse(bytes.Clone(content)) // it keeps what it is given
	if err != nil {
		return nil, fmt.Errorf("understanding %s: %w", file, err)
	}
	if root.Value.Kind() != '{' {
		return nil, d.problem(root.StartOffset, "the file does not hold an object: { ... }")
	}
	d.root = &root
	return d, nil
}

// notJSON ties what the JSON parser says to its place.
func (d *document) notJSON(err error) error {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return fmt.Errorf("understanding %s: %w", d.file, err)
	}
	// The offset is that behind the offending byte.
	return d.problem(int(syntax.Offset)-1, "not valid JSON: "+syntax.Error())
}

// problem is a finding at an offset that does not count the byte order mark.
func (d *document) problem(offset int, message string) error {
	line, column := d.place(offset)
	return &SyntaxError{File: d.file, Line: line, Column: column, Message: message}
}

// place is the line and the column of an offset, both from 1, the column in characters.
func (d *document) place(offset int) (line, column int) {
	content := d.text[d.base:]
	before := content[:max(0, min(offset, len(content)))]
	lineStart := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[lineStart:])
}

// members are those of an object, none of anything else.
func members(value *hujson.Value) []hujson.ObjectMember {
	if value == nil {
		return nil
	}
	if object, ok := value.Value.(*hujson.Object); ok {
		return object.Members
	}
	return nil
}

// find is the value of the object's one member of that name, nil when there is none.
// One that is there twice is a problem: readers differ in which they believe.
func (d *document) find(object *hujson.Value, name string) (*hujson.Value, error) {
	all := members(object)
	at := indexOf(all, name)
	if at < 0 {
		return nil, nil
	}
	if again := indexOf(all[at+1:], name); again >= 0 {
		second := all[at+1+again]
		return nil, d.problem(second.Name.StartOffset, fmt.Sprintf("%q is there twice: remove one of them", name))
	}
	return &all[at].Value, nil
}

// indexOf is the place of the first member of that name, -1 when there is none.
func indexOf(all []hujson.ObjectMember, name string) int {
	return slices.IndexFunc(all, func(m hujson.ObjectMember) bool {
		key, ok := m.Name.Value.(hujson.Literal)
		return ok && key.String() == name
	})
}

// servers is the object with the servers, nil when there is none.
func (d *document) servers() (*hujson.Value, error) {
	value, err := d.find(d.root, serversKey)
	if err == nil && value != nil && value.Value.Kind() != '{' {
		err = d.problem(value.StartOffset, serversKey+" is not an object: { ... }")
	}
	return value, err
}

// entry is the value of the server of that name, nil when there is none.
func (d *document) entry(name string) (*hujson.Value, error) {
	servers, err := d.servers()
	if err != nil {
		return nil, err
	}
	return d.find(servers, name)
}

// edit is the replacement of some bytes of a text by others.
type edit struct {
	At       int
	Old, New string
}

// apply returns text with the edit made; it reports false where the text has no Old
// at that place.
func (e edit) apply(text []byte) ([]byte, bool) {
	if e.At < 0 || e.At > len(text) || !bytes.HasPrefix(text[e.At:], []byte(e.Old)) {
		return nil, false
	}
	return slices.Concat(text[:e.At], []byte(e.New), text[e.At+len(e.Old):]), true
}

// reverse is the edit that takes e back.
func (e edit) reverse() edit { return edit{At: e.At, Old: e.New, New: e.Old} }

// replace is the edit that puts text in the place of the bytes from start to end,
// offsets as hujson gives them.
func (d *document) replace(start, end int, text string) edit {
	start, end = start+d.base, end+d.base
	return edit{At: start, Old: string(d.text[start:end]), New: text}
}

// inside is the edit that replaces all that an object has between its braces.
func (d *document) inside(object *hujson.Value, text string) edit {
	return d.replace(object.StartOffset+1, object.EndOffset-1, text)
}

// removal is the edit that takes the server of that name out, which is there, with
// the comma that goes with it. It undoes an insertion behind other members exactly.
func (d *document) removal(name string) (edit, error) {
	servers, err := d.servers()
	if err != nil {
		return edit{}, err
	}
	all := members(servers)
	switch at := indexOf(all, name); {
	case at < 0:
		return edit{}, fmt.Errorf("%s.%s is not in %s", serversKey, name, d.file)
	case len(all) == 1:
		return d.inside(servers, ""), nil
	case at == 0:
		return d.replace(all[0].Name.StartOffset, all[1].Name.StartOffset, ""), nil
	default:
		return d.replace(all[at-1].Value.EndOffset, all[at].Value.EndOffset, ""), nil
	}
}
