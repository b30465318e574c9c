package clients

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tailscale/hujson"
)

// layout is how a file is set, so that what we add looks like the rest.
type layout struct {
	// line is the line break and the indentation of the member that is written;
	// empty where all stands in one line.
	line string
	// unit is one step of indentation.
	unit string
	// space is what follows a colon, and a comma within a line.
	space string
}

// usual is the layout of a file that shows none.
func usual() layout { return layout{line: "\n", unit: "  ", space: " "} }

// layoutOf reads the layout off the white space before a member that lies in depth
// objects.
func layoutOf(lead string, depth int) layout {
	at := strings.LastIndexByte(lead, '\n')
	if at < 0 {
		return layout{space: lead}
	}
	indent := lead[at+1:]
	l := layout{line: "\n" + indent, unit: indent[:len(indent)/depth], space: " "}
	if strings.Contains(lead, "\r\n") {
		l.line = "\r" + l.line
	}
	return l
}

// deeper is the layout of the members of a member.
func (l layout) deeper() layout {
	if l.line != "" {
		l.line += l.unit
	}
	return l
}

// pair is a member of an object.
func (l layout) pair(key, value string) string {
	return quote(key) + ":" + l.space + value
}

// object and array enclose items, each on its own line if l has lines. l is the
// layout of the member whose value they are.
func (l layout) object(items ...string) string { return "{" + l.items(items) + "}" }
func (l layout) array(items ...string) string  { return "[" + l.items(items) + "]" }

func (l layout) items(items []string) string {
	if l.line == "" {
		return strings.Join(items, ","+l.space)
	}
	line := l.deeper().line
	return line + strings.Join(items, ","+line) + l.line
}

// server is the member that holds the entry.
func (l layout) server(e Entry) string {
	return l.pair(e.Name, l.object(
		l.pair("type", quote("stdio")),
		l.pair("command", quote(e.Command)),
		l.pair("args", l.deeper().strings(e.Args)),
	))
}

// strings is an array of strings.
func (l layout) strings(all []string) string {
	var quoted []string
	for _, s := range all {
		quoted = append(quoted, quote(s))
	}
	return l.array(quoted...)
}

// insertion is the edit that adds the entry, behind all other servers. There is none
// of its name.
func (d *document) insertion(e Entry) (edit, error) {
	servers, err := d.servers()
	if err != nil {
		return edit{}, err
	}
	roots := members(d.root)
	switch all := members(servers); {
	case d.root == nil:
		text := usual().object(usual().deeper().group(e)) + "\n"
		return d.replace(0, len(d.text)-d.base, text), nil
	case len(all) > 0:
		last := &all[len(all)-1]
		lead := string(last.Name.BeforeExtra)
		text := layoutOf(lead, 2).server(e)
		return d.replace(last.Value.EndOffset, last.Value.EndOffset, ","+lead+text), nil
	case servers != nil:
		group := roots[indexOf(roots, serversKey)]
		l := layoutOf(string(group.Name.BeforeExtra), 1)
		return d.inside(servers, l.items([]string{l.deeper().server(e)})), nil
	case len(roots) > 0:
		last := &roots[len(roots)-1]
		lead := string(last.Name.BeforeExtra)
		text := layoutOf(lead, 1).group(e)
		return d.replace(last.Value.EndOffset, last.Value.EndOffset, ","+lead+text), nil
	default:
		return d.inside(d.root, usual().items([]string{usual().deeper().group(e)})), nil
	}
}

// group is the member with all servers, with the entry as the only one.
func (l layout) group(e Entry) string {
	return l.pair(serversKey, l.object(l.deeper().server(e)))
}

// update is the text in which the entry at value starts what e says, and has what
// else the user wrote into it.
func (d *document) update(value *hujson.Value, e Entry) ([]byte, error) {
	command, err := d.find(value, "command")
	if err != nil {
		return nil, err
	}
	args, err := d.find(value, "args")
	if err != nil {
		return nil, err
	}
	edits := []edit{d.replace(command.StartOffset, command.EndOffset, quote(e.Command))}
	if written, _ := texts(args); !e.sameName(written) {
		l := layout{space: " "}
		edits = append(edits, d.replace(args.StartOffset, args.EndOffset, l.strings(e.Args)))
	}
	if len(edits) == 2 && edits[1].At > edits[0].At {
		edits[0], edits[1] = edits[1], edits[0] // from the back, so that places stay right
	}
	text := d.text
	for _, change := range edits {
		text, _ = change.apply(text) // it was made from this very text
	}
	return text, nil
}

// quote is text as a JSON string, with <, > and & as they are.
func quote(text string) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string always encodes
	return strings.TrimSuffix(out.String(), "\n")
}
