package clients

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Kind is what happens to a client's entry.
type Kind uint8

// Kinds of changes.
const (
	// Unchanged: all is as it should be.
	Unchanged Kind = iota
	// Added: there was no entry.
	Added
	// Updated: our entry named a program that has moved, or another name.
	Updated
	// Removed: our entry is gone.
	Removed
)

// Change is one change to a client's file.
type Change struct {
	Kind Kind
	// File is what changes, links followed.
	File string
	// Before and After are the entry for people, one line each, and empty where there
	// is none. They leave out what could be a secret.
	Before, After string
	// Tool is the command line of the client's own command that makes the change;
	// empty when the file is edited.
	Tool []string
	// Unconfirmed: the client's command reported success, and yet the file does not
	// show it.
	Unconfirmed bool
}

// same reports whether both are the same thing to agree to.
func (c Change) same(other Change) bool {
	return c.Kind == other.Kind && c.File == other.File && c.Before == other.Before && c.After == other.After &&
		slices.Equal(c.Tool, other.Tool)
}

// step is a change and the way to make it.
type step struct {
	Change
	file snapshot
	name string
	// text is the file's next content; with remove there is to be no file.
	text   []byte
	remove bool
	// note is what is to be remembered of it, nil for nothing.
	note *record
}

// maxTries is how often a file that changes under our hands is read again.
const maxTries = 10

// carryOut plans a change, has it agreed to, and makes it.
func (c *Client) carryOut(ctx context.Context, agree func(Change) error, plan func() (step, error)) (Change, error) {
	first, err := plan()
	if err != nil || first.Kind == Unchanged {
		return first.Change, err
	}
	if err := agree(first.Change); err != nil {
		return first.Change, err
	}
	for range maxTries {
		var next step
		// Agreeing takes time: the file is read again, and what is done to it has to be
		// what was agreed to.
		if next, err = plan(); err != nil {
			return first.Change, err
		}
		if !next.same(first.Change) {
			return first.Change, fmt.Errorf("%s was changed meanwhile, nothing was done: run the command again", first.File)
		}
		if len(next.Tool) > 0 {
			return c.byTool(ctx, next, plan)
		}
		if err = c.write(next); !errors.Is(err, errChanged) {
			return first.Change, err
		}
	}
	return first.Change, fmt.Errorf("%w, %d times: nothing was done, run the command again", err, maxTries)
}

// byTool lets the client's own command make the change, and looks whether it did.
func (c *Client) byTool(ctx context.Context, s step, plan func() (step, error)) (Change, error) {
	if err := c.runTool(ctx, s.Tool); err != nil {
		return s.Change, err
	}
	// The client sets its file anew, so what was noted about it says nothing more.
	err := c.notes.set(s.file.path, s.name, nil)
	after, planErr := plan()
	s.Unconfirmed = planErr != nil || after.Kind != Unchanged
	return s.Change, err
}

// write makes the change in the file.
func (c *Client) write(s step) error {
	if s.remove {
		if err := s.file.remove(); err != nil {
			return err
		}
		return c.notes.set(s.file.path, s.name, nil)
	}
	// A mistake of ours must not cost the user the file.
	if _, err := parseDocument(s.file.path, s.text); err != nil {
		return fmt.Errorf("checking what was to be written, nothing was: %w", err)
	}
	// Noted first: a note about a change that was not made does not fit the file, and
	// is of no consequence; a change without a note could not be undone exactly.
	if s.note != nil {
		if err := c.notes.set(s.file.path, s.name, s.note); err != nil {
			return err
		}
	}
	if err := s.file.replace(s.text); err != nil || s.note != nil {
		return err
	}
	return c.notes.set(s.file.path, s.name, nil)
}
