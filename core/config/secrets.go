package config

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
)

// minSecret is the length below which a text is not masked: too much that is
// not secret would be hit.
const minSecret = 4

// secretSet gathers the texts that must not be shown.
type secretSet map[string]struct{}

// add takes texts as secrets, except for short ones and plain words.
func (s secretSet) add(values ...string) {
	for _, v := range values {
		if len(v) >= minSecret && !plainWord(v) {
			s[v] = struct{}{}
		}
	}
}

// addHeader takes a header's value, and without its scheme ("Bearer").
func (s secretSet) addHeader(value string) {
	s.add(value)
	for part := range strings.FieldsSeq(value) {
		if !strings.EqualFold(part, "bearer") && !strings.EqualFold(part, "basic") {
			s.add(part)
		}
	}
}

// addURL takes the user info and the query values of raw, plain and encoded.
func (s secretSet) addURL(raw string) {
	u, err := url.Parse(inFolder(raw, "", nil))
	if err != nil {
		return
	}
	if u.User != nil {
		password, _ := u.User.Password()
		s.add(u.User.String(), u.User.Username(), password)
		name, encoded, _ := strings.Cut(u.User.String(), ":")
		s.add(name, encoded)
	}
	for pair := range strings.FieldsFuncSeq(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		_, value, _ := strings.Cut(pair, "=")
		s.add(value)
		if plain, err := url.QueryUnescape(value); err == nil {
			s.add(plain)
		}
	}
}

// addArgs takes what the arguments of a command give away: variables and
// headers handed on (-e K=V, --header "K: V"), the values of flags and
// assignments whose names speak of secrets, and URLs.
func (s secretSet) addArgs(args []string) {
	previous := ""
	for _, arg := range args {
		s.addArg(previous, arg)
		previous = arg
	}
}

func (s secretSet) addArg(previous, arg string) {
	if strings.Contains(arg, "://") {
		s.addURL(arg)
	}
	flag, value, assigned := strings.Cut(arg, "=")
	switch {
	case previous == "-e" || previous == "--env":
		s.add(value)
	case previous == "-H" || previous == "--header":
		s.addHeaderLine(arg)
	case flag == "--env":
		_, inner, _ := strings.Cut(value, "=")
		s.add(inner)
	case flag == "--header":
		s.addHeaderLine(value)
	case assigned && (speaksOfSecrets(flag) || strings.HasPrefix(flag, "-e")):
		s.add(value)
	case strings.HasPrefix(previous, "-") && !strings.Contains(previous, "=") && speaksOfSecrets(previous):
		s.add(arg)
	}
}

// addHeaderLine takes the value of "Name: value".
func (s secretSet) addHeaderLine(line string) {
	if _, value, ok := strings.Cut(line, ":"); ok {
		s.addHeader(strings.TrimSpace(value))
	}
}

// list is the secrets, the longest first: masked in that order, none is left
// half visible because a shorter one is a part of it.
func (s secretSet) list() []string {
	var list []string
	for v := range s {
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	return list
}

// EnvSecrets are the values of env ("K=V") that are to be masked, the longest
// first. It is meant for what [ReadEnvFile] returns.
func EnvSecrets(env []string) []string {
	set := secretSet{}
	for _, pair := range env {
		_, value, _ := strings.Cut(pair, "=")
		set.add(value)
	}
	return set.list()
}

// plainWord reports whether v is a usual setting that would be masked in many
// places for nothing.
func plainWord(v string) bool {
	switch strings.ToLower(v) {
	case "true", "false", "null", "none", "auto", "default", "always", "never", "enabled", "disabled",
		"trace", "debug", "info", "warn", "warning", "error", "silent", "verbose",
		"test", "development", "production", "staging", "local", "localhost", "127.0.0.1", "utf-8",
		"http", "https", "stdio", "json", "text", "application/json", "text/event-stream", "text/plain",
		"bearer", "basic":
		return true
	}
	return false
}

// speaksOfSecrets reports whether a variable, flag or key of this name usually
// holds a secret.
func speaksOfSecrets(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{
		"token", "secret", "passw", "pwd", "passphrase", "auth", "credential", "key", "bearer", "cookie", "session",
	}, func(part string) bool { return strings.Contains(name, part) })
}
