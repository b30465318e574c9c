package config

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// acceptedTypes is what "type" can be, in lower case, for messages.
const acceptedTypes = "stdio, http (also streamable-http, streamableHttp), sse"

// resolve makes the server's launch values of what the entry holds.
func (e *entry) resolve() {
	e.resolveType()
	e.resolveCommand()
	e.resolveFolders()
	e.resolveEnv()
	e.resolveURL()
	e.resolveHeaders()
}

// resolveType decides the transport, by the type or else by what there is.
func (e *entry) resolveType() {
	s := &e.server
	hasCommand, hasURL := e.given(e.command), e.given(e.url)
	known := e.explicitType()
	switch {
	case e.kind != nil && !known: // reported
	case hasCommand && hasURL:
		e.problem(e.url.issue("both command and url are given: keep one of them"))
	case !known && hasCommand:
		s.Type = Stdio
	case !known && hasURL:
		s.Type, s.FallbackSSE = HTTP, true
	case !known:
		e.problem(e.node.issue("missing command or url: neither is given"))
	case s.Type == Stdio && !hasCommand:
		e.problem(e.node.issue("missing command (type is stdio)"))
	case s.Type != Stdio && !hasURL:
		e.problem(e.node.issue("missing url (type is %s)", s.Type))
	}
}

// explicitType reads "type" and reports whether it said something usable.
func (e *entry) explicitType() bool {
	if e.kind == nil {
		return false
	}
	name, bad := asString(*e.kind)
	if bad != nil {
		e.problem(*bad)
		return false
	}
	switch strings.ToLower(name) {
	case "stdio":
		e.server.Type = Stdio
	case "http", "streamable-http", "streamablehttp":
		e.server.Type = HTTP
	case "sse":
		e.server.Type = SSE
	default:
		e.problem(e.kind.issue("unknown type %q: accepted are %s", shorten(name), acceptedTypes))
		return false
	}
	return true
}

// given reports whether a command or url is there; an empty one is none.
func (e *entry) given(n *node) bool {
	return n != nil && (n.kind() != '"' || n.literal().String() != "")
}

func (e *entry) resolveCommand() {
	s := &e.server
	if command, ok := e.expandNode(e.command, asString); ok {
		if command == "" && s.Type == Stdio {
			e.problem(e.command.issue("missing command: it is empty once its variables are replaced"))
		}
		s.Command = e.tilde(e.command, command)
	}
	s.Args = e.expandList(e.args, `"args" wants a list like ["-y", "package"]`)
	e.secrets.addArgs(s.Args)
}

// expandList reads a list of strings; what hints at how it is written.
func (e *entry) expandList(n *node, what string) []string {
	if n == nil {
		return nil
	}
	if n.kind() != '[' {
		bad := n.mismatch("a list of strings")
		bad.Message += ": " + what
		e.problem(*bad)
		return nil
	}
	var list []string
	for _, element := range n.elements() {
		if text, ok := e.expandNode(&element, asScalar); ok {
			list = append(list, text)
		}
	}
	return list
}

// resolveFolders makes the entry's paths absolute: cwd goes from the folder of
// the file, the others go from cwd, and from the file's folder without one.
func (e *entry) resolveFolders() {
	s := &e.server
	folder := filepath.Dir(e.node.doc.file)
	s.Cwd = e.options.Home
	if cwd, ok := e.expandNode(e.cwd, asString); ok && cwd != "" {
		s.Cwd, s.OwnCwd = absolute(e.tilde(e.cwd, cwd), folder), true
		folder = s.Cwd
	}
	if path, ok := e.expandNode(e.envFile, asString); ok && path != "" {
		s.EnvFile = absolute(e.tilde(e.envFile, path), folder)
	}
	if path, ok := e.expandNode(e.caFile, asString); ok && path != "" {
		s.CAFile = absolute(e.tilde(e.caFile, path), folder)
	}
	for _, path := range e.expandList(e.watch, `"watch" wants a list like ["./dist"]`) {
		s.Watch = append(s.Watch, absolute(e.tilde(e.watch, path), folder))
	}
}

// resolveEnv reads the variables; of a name given twice the last value counts,
// at the first one's place.
func (e *entry) resolveEnv() {
	index := map[string]int{}
	for _, m := range e.env {
		if m.key == "" || strings.ContainsAny(m.key, "=\x00") {
			e.problem(m.keyIssue("not a name for a variable"))
			continue
		}
		value, ok := e.expandNode(&m.node, asScalar)
		if !ok {
			continue
		}
		e.secrets.add(value)
		pair := m.key + "=" + value
		if at, twice := index[m.key]; twice {
			e.server.Env[at] = pair
			continue
		}
		index[m.key] = len(e.server.Env)
		e.server.Env = append(e.server.Env, pair)
	}
}

func (e *entry) resolveURL() {
	raw, ok := e.expandNode(e.url, asString)
	if !ok {
		return
	}
	e.server.URL = raw
	e.secrets.addURL(raw)
	if e.server.Type == Stdio || e.server.Type == "" {
		return // reported already: there is no server of this kind with a url
	}
	// The parser's own error quotes the url, which can hold a token.
	u, err := url.Parse(inFolder(raw, "/", escapeFolder))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		e.problem(e.url.issue("not a usable url: it must look like https://host/path"))
	}
}

// resolveHeaders reads the headers, whose names differ in more than case, and
// adds the token's.
func (e *entry) resolveHeaders() {
	for _, m := range e.headers {
		if !validHeaderName(m.key) {
			e.problem(m.keyIssue("not a name for a header"))
			continue
		}
		value, ok := e.expandNode(&m.node, asScalar)
		if !ok {
			continue
		}
		e.secrets.addHeader(value)
		if strings.ContainsAny(value, "\r\n") {
			e.problem(m.issue("a header cannot hold a line break"))
			continue
		}
		if before, twice := e.headerLike(m.key); twice {
			m.doc.warn(m.keyIssue("this header is given twice, the last one counts"))
			delete(e.server.Headers, before)
		}
		e.setHeader(m.key, value)
	}
	token, ok := e.expandNode(e.token, asString)
	if !ok {
		return
	}
	e.secrets.add(token)
	if _, taken := e.headerLike("Authorization"); taken {
		e.token.doc.warn(e.token.issue("there is an Authorization header as well, which counts"))
		return
	}
	if strings.ContainsAny(token, "\r\n") {
		e.problem(e.token.issue("a token cannot hold a line break"))
		return
	}
	e.setHeader("Authorization", "Bearer "+token)
	e.secrets.add("Bearer " + token)
}

// headerLike finds the header with this name in any case.
func (e *entry) headerLike(name string) (string, bool) {
	for have := range e.server.Headers {
		if strings.EqualFold(have, name) {
			return have, true
		}
	}
	return "", false
}

func (e *entry) setHeader(name, value string) {
	if e.server.Headers == nil {
		e.server.Headers = map[string]string{}
	}
	e.server.Headers[name] = value
}

// validHeaderName reports whether name is a token of RFC 9110 section 5.6.2.
func validHeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !slices.Contains([]rune("!#$%&'*+-.^_`|~"), r)
	})
}

// shorten cuts a word that is quoted in a message.
func shorten(word string) string {
	const most = 40
	if runes := []rune(word); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return word
}
