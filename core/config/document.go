package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

const (
	// maxFileSize is far above any configuration written by a person.
	maxFileSize = 8 << 20
	// maxDepth protects the parser below, which recurses once per level.
	maxDepth = 100
)

// document is one file while it is read; it gathers the warnings.
type document struct {
	file     string
	data     []byte   // without a byte order mark; offsets count from here
	members  []member // of the file's one object
	warnings []Issue
	listen   *node // the address of the HTTP endpoint that this file sets, nil for none
}

// parseDocument reads data as JSON with comments; the root must be an object.
func parseDocument(file string, data []byte) (*document, error) {
	d := &document{file: file, data: bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))}
	if bad := d.checkBytes(data); bad != nil {
		return nil, &ParseError{Issue: *bad}
	}
	// The parser wants a line break even after a comment on the last line.
	value, err := hujson.Parse(append(bytes.Clone(d.data), '\n'))
	if err != nil {
		return nil, &ParseError{Issue: d.syntaxIssue(err)}
	}
	root := node{doc: d, value: &value}
	if root.kind() != '{' {
		return nil, &ParseError{Issue: root.issue("the file must hold one object: { ... }")}
	}
	d.members = root.members()
	return d, nil
}

// checkBytes finds what the parser would only report in a misleading way.
// data is the file with its byte order mark.
func (d *document) checkBytes(data []byte) *Issue {
	whole := func(message string) *Issue { return &Issue{File: d.file, Message: message} }
	switch {
	case len(data) > maxFileSize:
		return whole(fmt.Sprintf("larger than %d MiB: this is not a configuration", maxFileSize>>20))
	case bytes.HasPrefix(data, []byte("\xFF\xFE")), bytes.HasPrefix(data, []byte("\xFE\xFF")),
		bytes.IndexByte(data, 0) >= 0:
		return whole("not UTF-8 text (perhaps UTF-16): save it as UTF-8")
	case len(bytes.TrimSpace(d.data)) == 0:
		return whole("the file is empty: write {} for a configuration without servers")
	}
	if at := invalidUTF8(d.data); at >= 0 {
		bad := d.issueAt(at, "", "not UTF-8 text here: save the file as UTF-8")
		return &bad
	}
	if at := tooDeep(d.data); at >= 0 {
		bad := d.issueAt(at, "", fmt.Sprintf("nested deeper than %d levels", maxDepth))
		return &bad
	}
	return nil
}

// syntaxIssue words a parser error. The parser's own text is not shown, because
// it can quote a value; its position is only found in its text.
func (d *document) syntaxIssue(err error) Issue {
	var line, column int
	if _, scanErr := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &column); scanErr != nil {
		return Issue{File: d.file, Message: "not valid JSON"}
	}
	at := d.offset(line, column)
	if errors.Is(err, io.ErrUnexpectedEOF) || at >= len(d.data) {
		return d.issueAt(min(at, len(d.data)), "", "the file ends too early: a bracket, quote or comment is not closed")
	}
	switch c, _ := utf8.DecodeRune(d.data[at:]); {
	case c == '"':
		return d.issueAt(at, "", "this string is not closed on its line, or has an escape that JSON does not know")
	case c == ',' || c == ':' || strings.ContainsRune("{}[]", c):
		return d.issueAt(at, "", fmt.Sprintf("unexpected %q: something is missing before it", c))
	default:
		return d.issueAt(at, "", fmt.Sprintf("unexpected %q: a comma or a quote is missing, or this is no JSON", c))
	}
}

// offset is where line and column, both from 1 and in bytes, lie in data.
func (d *document) offset(line, column int) int {
	at := 0
	for range line - 1 {
		next := bytes.IndexByte(d.data[at:], '\n')
		if next < 0 {
			return len(d.data)
		}
		at += next + 1
	}
	return min(at+column-1, len(d.data))
}

// issueAt ties a finding to a place in the file.
func (d *document) issueAt(offset int, path, message string) Issue {
	before := d.data[:min(offset, len(d.data))]
	lineStart := bytes.LastIndexByte(before, '\n') + 1
	return Issue{
		File:    d.file,
		Path:    path,
		Line:    1 + bytes.Count(before, []byte("\n")),
		Column:  1 + utf8.RuneCount(before[lineStart:]),
		Message: message,
	}
}

// warn records a finding that makes no server unusable.
func (d *document) warn(i Issue) { d.warnings = append(d.warnings, i) }

// invalidUTF8 is the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

// tooDeep is the offset of the bracket that opens level maxDepth+1, or -1.
// Brackets in strings and comments do not count.
func tooDeep(data []byte) int {
	depth := 0
	for at := 0; at < len(data); at++ {
		switch data[at] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return at
			}
		case '}', ']':
			depth--
		case '"':
			at = stringEnd(data, at)
		case '/':
			at = commentEnd(data, at)
		}
	}
	return -1
}

// stringEnd is the offset of the quote that closes the string opened at start.
func stringEnd(data []byte, start int) int {
	for at := start + 1; at < len(data); at++ {
		switch data[at] {
		case '\\':
			at++
		case '"':
			return at
		}
	}
	return len(data)
}

// commentEnd is the offset of the last byte of the comment that begins at
// start, or start where none begins.
func commentEnd(data []byte, start int) int {
	rest := data[start:]
	closing := ""
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		closing = "\n"
	case bytes.HasPrefix(rest, []byte("/*")):
		closing = "*/"
	default:
		return start
	}
	end := bytes.Index(rest[2:], []byte(closing))
	if end < 0 {
		return len(data)
	}
	return start + 2 + end + len(closing) - 1
}
