package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxServerName is the longest name, in characters.
const maxServerName = 64

// servers reads the entries of d in their order. A list of servers that is no
// list at all is an error like broken JSON: taking it for "no servers" would
// stop everything that runs.
func (d *document) servers(inherited Reconnect, o Options) ([]Server, error) {
	var list []Server
	for _, m := range d.members {
		if m.key != "mcpServers" && m.key != "servers" || m.null() {
			continue
		}
		var entries []*entry
		switch m.kind() {
		case '{':
			entries = mapEntries(m.node)
		case '[':
			entries = arrayEntries(m.node)
		default:
			return nil, &ParseError{Issue: *m.mismatch("an object with a member for each server")}
		}
		for _, e := range entries {
			e.options = o
			e.server.Reconnect = inherited
			list = d.addServer(list, e)
		}
	}
	return list, nil
}

// addServer reads e and puts it into list. Of a name that is there already the
// last entry counts, as for a key in an object.
func (d *document) addServer(list []Server, e *entry) []Server {
	s := e.read()
	at := slices.IndexFunc(list, func(o Server) bool { return o.Name == s.Name })
	if at < 0 {
		return append(list, s)
	}
	d.warn(d.issueAt(e.nameAt, e.node.path, "this server is given twice, the last entry counts"))
	list[at] = s
	return list
}

// mapEntries are the entries of {"name": {...}, ...}.
func mapEntries(n node) []*entry {
	var list []*entry
	for _, m := range n.members() {
		e := &entry{node: m.node, nameAt: m.keyAt, members: m.members(), secrets: secretSet{}}
		e.server.Name = m.key
		list = append(list, e)
	}
	return list
}

// arrayEntries are the entries of [{"name": "name", ...}, ...]. One without a
// name is called by its place, so that it does not vanish.
func arrayEntries(n node) []*entry {
	var list []*entry
	for i, element := range n.elements() {
		e := &entry{node: element, nameAt: element.value.StartOffset, secrets: secretSet{}}
		e.server.Name = fmt.Sprintf("servers[%d]", i)
		named := false
		for _, m := range element.members() {
			if m.key != "name" {
				e.members = append(e.members, m)
				continue
			}
			named = true
			name, bad := asString(m.node)
			if bad != nil {
				e.problem(*bad)
				continue
			}
			e.server.Name, e.nameAt = name, m.value.StartOffset
		}
		if !named && element.kind() == '{' {
			e.problem(element.issue("missing name"))
		}
		list = append(list, e)
	}
	return list
}

// nameProblem says what is wrong with a server's name, or nothing. Names become
// parts of file names, menu rows and log lines.
func nameProblem(name string) string {
	switch {
	case name == "":
		return "the server's name is empty"
	case utf8.RuneCountInString(name) > maxServerName:
		return fmt.Sprintf("the server's name is longer than %d characters", maxServerName)
	case strings.ContainsAny(name, `/\`):
		return `the server's name holds a "/" or "\"`
	case strings.ContainsFunc(name, unicode.IsControl):
		return "the server's name holds a control character"
	}
	return ""
}
