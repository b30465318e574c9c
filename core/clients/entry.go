package clients

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tailscale/hujson"
)

const (
	// DefaultName is the name under which clients have the funnel.
	DefaultName = "funnel"
	bridge      = "bridge"
	program     = "mcp-funnel"
)

// namePattern is what Claude Code takes as a server's name, without those that its
// command line would take for a flag.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)

// ValidName reports whether clients take name as that of a server.
func ValidName(name string) bool { return namePattern.MatchString(name) }

// Entry is what a client is told about a server over stdio.
type Entry struct {
	// Name is the server's name, a key of mcpServers.
	Name string
	// Command is the program, an absolute path.
	Command string
	// Args are the program's arguments.
	Args []string
}

// BridgeEntry is the entry that lets a client run the bridge of the program at
// command under the given name.
func BridgeEntry(name, command string) Entry {
	e := Entry{Name: name, Command: command, Args: []string{bridge}}
	if name != DefaultName {
		// The bridge has to know it: it counts for the length of tools' names.
		e.Args = append(e.Args, "--name", name)
	}
	return e
}

// sameName reports whether args tell the bridge the name that e has.
func (e Entry) sameName(args []string) bool {
	name := DefaultName
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--name="); ok {
			name = value
		} else if arg == "--name" && i+1 < len(args) {
			name = args[i+1]
		}
	}
	return name == e.Name
}

// written is what an entry in a file says about how to start its server.
type written struct {
	command string
	args    []string
}

// read takes an entry that starts a program over stdio; it reports false for any
// other, and for one that it does not understand.
func (d *document) read(value *hujson.Value) (written, bool) {
	var w written
	kind, err := d.find(value, "type")
	if err != nil || kind != nil && text(kind) != "stdio" {
		return w, false
	}
	command, err := d.find(value, "command")
	if err != nil {
		return w, false
	}
	args, err := d.find(value, "args")
	if err != nil {
		return w, false
	}
	w.command = text(command)
	var ok bool
	w.args, ok = texts(args)
	return w, ok && w.command != ""
}

// runsBridge reports whether an entry is one of ours: wherever the program lies, it
// is this one, and it is started as a bridge.
func (w written) runsBridge(command string) bool {
	base := strings.ToLower(filepath.Base(w.command))
	ours := strings.TrimSuffix(base, ".exe") == program ||
		strings.HasPrefix(base, program) && strings.HasSuffix(base, ".appimage") ||
		filepath.Base(w.command) == filepath.Base(command)
	return ours && len(w.args) > 0 && w.args[0] == bridge
}

// is reports whether the entry starts what e says, as far as it matters: arguments
// that the user added are fine.
func (w written) is(e Entry) bool {
	return w.command == e.Command && w.args[0] == bridge && e.sameName(w.args)
}

// text is the value of a string, "" of anything else.
func text(value *hujson.Value) string {
	if value == nil || value.Value.Kind() != '"' {
		return ""
	}
	literal, _ := value.Value.(hujson.Literal)
	return literal.String()
}

// texts are the values of an array of strings; it reports false for anything else.
func texts(value *hujson.Value) ([]string, bool) {
	if value == nil {
		return nil, false
	}
	array, ok := value.Value.(*hujson.Array)
	if !ok {
		return nil, false
	}
	var all []string
	for i := range array.Elements {
		if array.Elements[i].Value.Kind() != '"' {
			return nil, false
		}
		all = append(all, text(&array.Elements[i]))
	}
	return all, true
}

// show is an entry for people, in one line: only what starts the server, because the
// rest of an entry can hold secrets.
func show(name, command string, args []string) string {
	l := layout{space: " "}
	return l.pair(name, l.object(
		l.pair("command", quote(command)),
		l.pair("args", l.strings(args)),
	))
}
