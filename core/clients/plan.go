package clients

import (
	"github.com/tailscale/hujson"
)

// load reads and understands the client's file.
func (c *Client) load() (snapshot, *document, error) {
	file, err := takeSnapshot(c.file)
	if err != nil {
		return file, nil, err
	}
	d, err := parseDocument(file.path, file.text)
	return file, d, err
}

// planConnect finds out what makes the client run the entry.
func (c *Client) planConnect(e Entry) (step, error) {
	file, d, err := c.load()
	if err != nil {
		return step{}, err
	}
	s := step{file: file, name: e.Name}
	s.File = file.path
	value, err := d.entry(e.Name)
	if err != nil {
		return step{}, err
	}
	if value == nil {
		return c.planInsertion(s, d, e)
	}
	present, err := d.ours(value, e.Name, e.Command)
	if err != nil {
		return step{}, err
	}
	s.After = show(e.Name, e.Command, present.args)
	if present.is(e) {
		return s, nil
	}
	s.Kind = Updated
	s.Before = show(e.Name, present.command, present.args)
	if !e.sameName(present.args) {
		s.After = show(e.Name, e.Command, e.Args)
	}
	// Clients' commands can only remove an entry and add it again. That would lose
	// what the user put into it, and the whole entry when the second part fails.
	if s.text, err = d.update(value, e); err != nil {
		return step{}, err
	}
	s.note = c.notes.find(file.path, e.Name).moved(file.text, s.text)
	return s, nil
}

// planInsertion is the addition of an entry.
func (c *Client) planInsertion(s step, d *document, e Entry) (step, error) {
	s.Kind, s.After = Added, show(e.Name, e.Command, e.Args)
	if c.tool != "" {
		s.Tool = addCommand(e)
		return s, nil
	}
	insert, err := d.insertion(e)
	if err != nil {
		return step{}, err
	}
	s.text, _ = insert.apply(d.text) // it was made from this very text
	s.note = newRecord(s.file, e.Name, insert, s.text)
	return s, nil
}

// planDisconnect finds out what takes our entry out.
func (c *Client) planDisconnect(name, command string) (step, error) {
	file, d, err := c.load()
	if err != nil {
		return step{}, err
	}
	s := step{file: file, name: name}
	s.File = file.path
	value, err := d.entry(name)
	if err != nil || value == nil {
		return s, err
	}
	present, err := d.ours(value, name, command)
	if err != nil {
		return step{}, err
	}
	s.Kind, s.Before = Removed, show(name, present.command, present.args)
	note := c.notes.find(file.path, name)
	if before, ok := note.undo(file.text); ok {
		s.text, s.remove = before, !note.Existed
		return s, nil
	}
	if c.tool != "" {
		s.Tool = removeCommand(name)
		return s, nil
	}
	removal, err := d.removal(name)
	if err != nil {
		return step{}, err
	}
	s.text, _ = removal.apply(d.text) // it was made from this very text
	return s, nil
}

// ours reads the entry at value, which is there; one that does not run our bridge is
// a [*ForeignError].
func (d *document) ours(value *hujson.Value, name, command string) (written, error) {
	present, ok := d.read(value)
	if ok && present.runsBridge(command) {
		return present, nil
	}
	line, _ := d.place(value.StartOffset)
	return written{}, &ForeignError{File: d.file, Line: line, Name: name}
}
