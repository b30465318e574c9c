package config

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// entry is one server while it is read.
type entry struct {
	node    node
	nameAt  int // offset of the name
	members []member
	options Options
	secrets secretSet
	server  Server

	// What says how to reach the server, wherever in the entry it stands.
	kind, command, args, url, caFile, cwd, envFile, watch, token *node
	env, headers                                                 []member
	// project: ${PROJECT_DIR} is used.
	project bool
}

// problem records a finding that makes the server unusable: the first is the
// server's Problem, further ones are shown with the warnings.
func (e *entry) problem(bad Issue) {
	if e.server.Problem == nil {
		e.server.Problem = &bad
		return
	}
	e.node.doc.warn(bad)
}

// report is [entry.problem] as a reporter: in an entry no default holds.
func (e *entry) report(bad Issue, _ any) { e.problem(bad) }

// read makes the server of the entry.
func (e *entry) read() Server {
	s := &e.server
	s.Enabled, s.StartupTimeout, s.Prefix = true, defaultStartupTimeout, s.Name
	s.IdleTimeout, s.MaxInstances = defaultIdleTimeout, defaultMaxInstances
	if wrong := nameProblem(s.Name); wrong != "" {
		e.problem(e.node.doc.issueAt(e.nameAt, e.node.path, wrong))
	}
	if e.node.kind() != '{' {
		e.problem(*e.node.mismatch("an object"))
		s.Scope = Shared
		return *s
	}
	s.PingInterval = -1 // not given: by type
	for _, m := range e.members {
		if m.key != "transport" && !e.readLaunch(m) {
			e.readPolicy(m)
		}
	}
	// Last, because what the original's nested form says counts.
	for _, m := range e.members {
		if m.key == "transport" {
			e.readTransport(m)
		}
	}
	e.resolve()
	if s.PingInterval < 0 {
		s.PingInterval = 0
		if s.Type != Stdio {
			s.PingInterval = defaultPingInterval
		}
	}
	s.Secrets = e.secrets.list()
	e.settleScope()
	return *s
}

// settleScope decides the scope where the entry does not say it. A server that all
// share has no project folder.
func (e *entry) settleScope() {
	s := &e.server
	switch {
	case s.Scope == "" && e.project:
		s.Scope = PerProject
	case s.Scope == "":
		s.Scope = Shared
	case s.Scope == Shared && s.NeedsFolder:
		e.problem(e.node.issue("a server of scope shared has no ${%s}: leave the scope out, or give the variable a default", projectDir))
	}
	if s.Scope == Shared && e.project {
		*s = s.In("")
	}
}

// readLaunch takes a key that says how the server is reached; the values are
// resolved when all keys are known. It reports whether m is such a key.
func (e *entry) readLaunch(m member) bool {
	switch m.key {
	case "type":
		e.take(&e.kind, m)
	case "command":
		e.take(&e.command, m)
	case "args":
		e.take(&e.args, m)
	case "url", "httpUrl", "serverUrl":
		e.take(&e.url, m)
	case "caFile":
		e.take(&e.caFile, m)
	case "env":
		e.env = append(e.env, e.object(m.node)...)
	case "headers":
		e.headers = append(e.headers, e.object(m.node)...)
	case "cwd":
		e.take(&e.cwd, m)
	case "envFile":
		e.take(&e.envFile, m)
	case "watch":
		e.take(&e.watch, m)
	case "auth":
		e.readAuth(m.node)
	default:
		return false
	}
	return true
}

// take keeps the value of a key that can stand in several places.
func (e *entry) take(into **node, m member) {
	if m.null() {
		return
	}
	if *into != nil {
		m.doc.warn(m.keyIssue("also given as %s; this one counts", (*into).path))
	}
	*into = &m.node
}

// object are the members of an object; anything else but null is a problem.
func (e *entry) object(n node) []member {
	if n.kind() != '{' && !n.null() {
		e.problem(*n.mismatch("an object"))
	}
	return n.members()
}

// readTransport takes the original's nested form, {"type": ..., ...}, or only
// the type as a string.
func (e *entry) readTransport(m member) {
	if m.kind() == '"' {
		e.take(&e.kind, m)
		return
	}
	for _, inner := range e.object(m.node) {
		switch inner.key {
		case "type", "command", "args", "url", "httpUrl", "serverUrl", "caFile", "env", "headers", "cwd":
			e.readLaunch(inner)
		default:
			inner.unknown()
		}
	}
}

// readAuth takes {"type": "bearer", "token": ...}.
func (e *entry) readAuth(n node) {
	members := e.object(n)
	kind := ""
	for _, m := range members {
		if m.key == "type" {
			read(m.node, asOneOf("none", "bearer", "oauth2-client", "oauth2-code"), &kind, e.report)
		}
	}
	if strings.HasPrefix(kind, "oauth2-") {
		n.doc.warn(n.issue("OAuth log-in is not supported: the server is tried without it"))
		return
	}
	for _, m := range members {
		switch m.key {
		case "type":
		case "token":
			e.take(&e.token, m)
		default:
			m.unknown()
		}
	}
	switch {
	case kind == "none":
		e.token = nil
	case kind == "bearer" && e.token == nil:
		e.problem(n.issue("missing token (type is bearer)"))
	}
}

// readPolicy takes a key that says how the server is treated.
func (e *entry) readPolicy(m member) {
	s := &e.server
	switch m.key {
	case "enabled":
		on := true
		read(m.node, asBool, &on, e.report)
		s.Enabled = s.Enabled && on
	case "disabled":
		off := false
		read(m.node, asBool, &off, e.report)
		s.Enabled = s.Enabled && !off
	case "scope":
		var scope string
		read(m.node, asOneOf(string(Shared), string(PerProject), string(PerSession)), &scope, e.report)
		s.Scope = Scope(scope)
	case "startupTimeoutMs":
		read(m.node, asMillis(1), &s.StartupTimeout, e.report)
	case "idleTimeoutMs":
		read(m.node, asMillis(0), &s.IdleTimeout, e.report)
	case "maxInstances":
		read(m.node, asInt(1, maxInstances), &s.MaxInstances, e.report)
	case "pingIntervalMs":
		read(m.node, asMillis(0), &s.PingInterval, e.report)
	case "callTimeoutMs":
		read(m.node, asMillis(0), &s.CallTimeout, e.report)
	case "timeout":
		e.readTimeout(m)
	case "prefix":
		read(m.node, asString, &s.Prefix, e.report)
	case "reconnect", "autoReconnect":
		readReconnect(m.node, &s.Reconnect, e.report)
	default:
		m.unknown()
	}
}

// readTimeout takes "timeout", in seconds, unless callTimeoutMs is there too.
func (e *entry) readTimeout(m member) {
	exact := slices.ContainsFunc(e.members, func(o member) bool { return o.key == "callTimeoutMs" && !o.null() })
	if exact && !m.null() {
		m.doc.warn(m.keyIssue("also given as callTimeoutMs, which counts"))
		return
	}
	read(m.node, asSeconds, &e.server.CallTimeout, e.report)
}

// expandNode reads a string and replaces its variables. ok is false when there
// is no value or it is wrong, which is a problem then.
func (e *entry) expandNode(n *node, get func(node) (string, *Issue)) (text string, ok bool) {
	if n == nil {
		return "", false
	}
	raw, bad := get(*n)
	if bad != nil {
		e.problem(*bad)
		return "", false
	}
	expanded, err := expand(raw, e.options.Lookup)
	if err != nil {
		e.problem(n.issue("%v", err))
		return "", false
	}
	if strings.Count(expanded.text, "\x00") != expanded.folders { // others than our marks
		e.problem(n.issue("holds a NUL character"))
		return "", false
	}
	e.project = e.project || expanded.folders > 0
	e.server.NeedsFolder = e.server.NeedsFolder || expanded.needed
	e.secrets.add(expanded.secrets...)
	return expanded.text, true
}

// tilde replaces a leading "~" or "~/" by the home folder.
func (e *entry) tilde(n *node, path string) string {
	rest, found := strings.CutPrefix(path, "~")
	separated := rest == "" || rest[0] == '/' || runtime.GOOS == "windows" && rest[0] == '\\'
	if !found || !separated {
		return path
	}
	if e.options.Home == "" {
		e.problem(n.issue(`"~" cannot be resolved: no home folder is known`))
		return path
	}
	return filepath.Join(e.options.Home, rest)
}

// absolute resolves a path against folder. One that begins with the project's
// folder is left for when that is known.
func absolute(path, folder string) string {
	if filepath.IsAbs(path) || strings.HasPrefix(path, folderMark) {
		return path
	}
	return filepath.Join(folder, path)
}
