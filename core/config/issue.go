package config

import (
	"fmt"
	"strings"
)

// Issue is one finding in a configuration file. Its text never holds a value
// that could be a secret: it names keys, variables and what is expected.
type Issue struct { //nolint:errname // a finding first of all; as an error it is inside a ParseError
	// File is the file as it was named when it was read.
	File string
	// Path is where in the file, by keys: mcpServers.github.env.TOKEN.
	// Empty: the file as a whole.
	Path string
	// Line and Column count from 1, Column in characters. 0: unknown.
	Line, Column int
	// Message says what is wrong and, where it helps, what to write instead.
	Message string
}

// Error is the finding for people: "config.json:12:5: mcpServers.api: missing url".
func (i Issue) Error() string {
	var b strings.Builder
	b.WriteString(i.File)
	if i.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", i.Line, i.Column)
	}
	if i.Path != "" {
		b.WriteString(": " + i.Path)
	}
	b.WriteString(": " + i.Message)
	return b.String()
}

// String is the same as [Issue.Error].
func (i Issue) String() string { return i.Error() }

// ParseError says that a file could not be read as a configuration at all:
// nothing of it may be used, and what runs goes on as it is.
type ParseError struct {
	Issue
	// Err is the cause where it is an error of the system, else nil.
	Err error
}

// Error is the finding for people.
func (e *ParseError) Error() string { return "reading config: " + e.Issue.Error() }

// Unwrap returns the cause, for errors.Is with fs.ErrPermission and the like.
func (e *ParseError) Unwrap() error { return e.Err }
