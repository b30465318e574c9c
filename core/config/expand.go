package config

import (
	"fmt"
	"strings"
)

// projectDir is the variable that only a client session knows: its place is marked
// until a server is started for one project.
const projectDir = "PROJECT_DIR"

// expansion is a text whose variables have been replaced.
type expansion struct {
	text string
	// folders counts the places of ${PROJECT_DIR} in text; needed: one has no default.
	folders int
	needed  bool
	// secrets are the values of variables whose names speak of secrets.
	secrets []string
}

// expand replaces ${NAME}, ${NAME:-default} and ${NAME:default}. What is put in
// is not looked at again. An empty variable counts as set. $${ yields ${; any
// other $ is itself. The error names the variable, never a value.
func expand(s string, lookup func(string) (string, bool)) (expansion, error) {
	var out strings.Builder
	var e expansion
	for {
		at := strings.Index(s, "${")
		if at < 0 {
			out.WriteString(s)
			e.text = out.String()
			return e, nil
		}
		if at > 0 && s[at-1] == '$' {
			out.WriteString(s[:at-1] + "${")
			s = s[at+2:]
			continue
		}
		out.WriteString(s[:at])
		ref, err := parseReference(s[at+2:])
		if err != nil {
			return expansion{}, err
		}
		value, err := e.resolve(ref, lookup)
		if err != nil {
			return expansion{}, err
		}
		out.WriteString(value)
		s = s[at+2+ref.length:]
	}
}

// reference is what stands between "${" and "}".
type reference struct {
	name       string
	fallback   string
	hasDefault bool
	source     string // as written, with ${ and }
	length     int    // bytes after "${", the "}" included
}

// parseReference reads a reference from rest, which follows a "${".
func parseReference(rest string) (reference, error) {
	end := strings.IndexByte(rest, '}')
	if end < 0 {
		return reference{}, fmt.Errorf(`"${" without a closing "}" (write "$${" for the characters themselves)`)
	}
	body := rest[:end]
	name, fallback, hasDefault := strings.Cut(body, ":")
	if !validVariable(name) {
		return reference{}, fmt.Errorf(`"${" must be followed by a variable's name and "}" or ":-default}" (write "$${" for the characters themselves)`)
	}
	fallback = strings.TrimPrefix(fallback, "-")
	if strings.Contains(fallback, "${") {
		return reference{}, fmt.Errorf("the default of variable %s holds another \"${\", which is not supported", name)
	}
	return reference{
		name: name, fallback: fallback, hasDefault: hasDefault,
		source: "${" + body + "}", length: end + 1,
	}, nil
}

// resolve finds the text for one reference.
func (e *expansion) resolve(ref reference, lookup func(string) (string, bool)) (string, error) {
	if ref.name == projectDir {
		e.folders++
		e.needed = e.needed || !ref.hasDefault
		return folderMark + strings.TrimPrefix(ref.source, "$"), nil
	}
	value, ok := lookup(ref.name)
	switch {
	case ok:
	case ref.hasDefault:
		value = ref.fallback
	default:
		return "", fmt.Errorf("variable %s is not set (set it, or write ${%s:-default})", ref.name, ref.name)
	}
	if speaksOfSecrets(ref.name) {
		e.secrets = append(e.secrets, value)
	}
	return value, nil
}

// validVariable reports whether name can be a variable: letters, digits and
// underscores, no digit first.
func validVariable(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
