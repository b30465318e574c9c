package autostart

import (
	"slices"
	"strings"
)

// desktopFile is a desktop entry (freedesktop.org's Desktop Entry Specification
// 1.5) as lines, so that a change of one keeps all the others, comments included.
type desktopFile []string

// group is the one with what is to be started.
const group = "[Desktop Entry]"

func parseDesktopFile(data []byte) desktopFile {
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

func (f desktopFile) bytes() []byte { return []byte(strings.Join(f, "\n") + "\n") }

// section returns where the lines of the group begin and end; 0, 0 without one.
func (f desktopFile) section() (from, to int) {
	for i, line := range f {
		line = strings.TrimSpace(line)
		switch {
		case from == 0 && line == group:
			from = i + 1
		case from > 0 && strings.HasPrefix(line, "["):
			return from, i
		}
	}
	if from == 0 {
		return 0, 0
	}
	return from, len(f)
}

// entry splits a line into key and value, the latter as it is in the file.
func entry(line string) (key, value string, ok bool) {
	if strings.HasPrefix(strings.TrimSpace(line), "#") {
		return "", "", false
	}
	key, value, ok = strings.Cut(line, "=")
	return strings.TrimSpace(key), strings.TrimSpace(value), ok
}

// value returns the raw value of a key; the first one counts, as in GLib.
func (f desktopFile) value(key string) string {
	from, to := f.section()
	for _, line := range f[from:to] {
		if k, v, ok := entry(line); ok && k == key {
			return v
		}
	}
	return ""
}

// set returns the file with the value of key replaced where it stands, or added as
// the first of the group; "" takes the key out.
func (f desktopFile) set(key, value string) desktopFile {
	from, to := f.section()
	if from == 0 {
		f = append(slices.Clone(f), group)
		from, to = len(f), len(f)
	}
	var kept desktopFile
	for _, line := range f[from:to] {
		if k, _, ok := entry(line); !ok || k != key {
			kept = append(kept, line)
		} else if value != "" {
			kept = append(kept, key+"="+value)
			value = "" // once
		}
	}
	changed := slices.Clone(f[:from])
	if value != "" {
		changed = append(changed, key+"="+value)
	}
	return slices.Concat(changed, kept, f[to:])
}

// setDefault is set where the key has no value yet.
func (f desktopFile) setDefault(key, value string) desktopFile {
	if f.value(key) != "" {
		return f
	}
	return f.set(key, value)
}

// quoteExec writes arguments as the value of Exec: each in quotes; per cent signs,
// which begin field codes, twice; and then what every string value escapes.
func quoteExec(arguments []string) string {
	inQuotes := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`, `%`, `%%`)
	quoted := make([]string, 0, len(arguments))
	for _, a := range arguments {
		quoted = append(quoted, `"`+inQuotes.Replace(a)+`"`)
	}
	return escapeValue(strings.Join(quoted, " "))
}

// escapeValue writes text as a value of type string.
func escapeValue(text string) string {
	text = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(text)
	if strings.HasPrefix(text, " ") { // which would be taken for the space after "="
		text = `\s` + text[1:]
	}
	return text
}

// unescapeValue reads a value of type string. Unknown escapes stay as they are.
func unescapeValue(value string) string {
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r", `\s`, " ").Replace(value)
}

// splitExec reads the value of Exec; ok is false where its quotes do not match.
// Field codes stand for files and the like, of which there are none at a login:
// they are left out.
func splitExec(value string) (arguments []string, ok bool) {
	var s execScanner
	for _, b := range []byte(unescapeValue(value)) { // a path can be anything
		s.take(b)
	}
	s.end()
	return s.arguments, !s.quoted && !s.escaped
}

// execScanner reads a command line, byte by byte.
type execScanner struct {
	arguments []string
	current   []byte
	begun     bool // an argument, perhaps an empty one
	quoted    bool
	escaped   bool // the byte before was a backslash in quotes
	code      bool // the byte before was a per cent sign
}

func (s *execScanner) take(b byte) {
	switch {
	case s.escaped:
		s.escaped = false
		s.current = append(s.current, b)
	case s.code:
		s.code = false
		if b == '%' {
			s.begun = true
			s.current = append(s.current, b)
		}
	case b == '%':
		s.code = true
	case s.quoted && b == '\\':
		s.escaped = true
	case b == '"':
		s.quoted, s.begun = !s.quoted, true
	case !s.quoted && (b == ' ' || b == '\t' || b == '\n'):
		s.end()
	default:
		s.begun = true
		s.current = append(s.current, b)
	}
}

func (s *execScanner) end() {
	if s.begun {
		s.arguments = append(s.arguments, string(s.current))
	}
	s.current, s.begun = nil, false
}
