package clients

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2/maybe"
)

// record is what we did to a file, so that it can be undone to the byte. It holds
// nothing of the file but white space.
type record struct {
	File string `json:"file"`
	Name string `json:"name"`
	// Existed is false when the file was created.
	Existed bool `json:"existed"`
	// At, Old and New are the edit.
	At  int    `json:"at"`
	Old string `json:"old"`
	New string `json:"new"`
	// Before and After are hashes of the whole file.
	Before string `json:"before"`
	After  string `json:"after"`
}

// newRecord notes the edit that made after out of the file as it was read.
func newRecord(s snapshot, name string, e edit, after []byte) *record {
	return &record{
		File: s.path, Name: name, Existed: s.exists,
		At: e.At, Old: e.Old, New: e.New, Before: hash(s.text), After: hash(after),
	}
}

// undo returns the text from before the record; it reports false when somebody
// changed the file since, and the record says nothing about it any more.
func (r *record) undo(text []byte) ([]byte, bool) {
	if r == nil || hash(text) != r.After {
		return nil, false
	}
	before, ok := edit{At: r.At, Old: r.Old, New: r.New}.reverse().apply(text)
	return before, ok && hash(before) == r.Before
}

// moved is the record of the same insertion after what was inserted has changed; nil
// when the record did not fit before.
func (r *record) moved(before, after []byte) *record {
	if _, ok := r.undo(before); !ok {
		return nil
	}
	next := *r
	next.New = string(after[r.At : r.At+len(r.New)+len(after)-len(before)])
	next.After = hash(after)
	return &next
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// notebook is the file with the records, connect.json in the state folder. It is only
// a help: one that cannot be understood is empty.
type notebook struct{ path string }

// find is the record of an entry of that name in file, nil when there is none.
func (n notebook) find(file, name string) *record {
	all, err := n.load()
	if err != nil {
		return nil
	}
	at := slices.IndexFunc(all, same(file, name))
	if at < 0 {
		return nil
	}
	return &all[at]
}

// set replaces what is noted about the entry; nil leaves nothing.
func (n notebook) set(file, name string, r *record) error {
	all, err := n.load()
	if err != nil {
		return err
	}
	count := len(all)
	all = slices.DeleteFunc(all, same(file, name))
	if r != nil {
		all = append(all, *r)
	} else if len(all) == count {
		return nil
	}
	text, err := json.MarshalIndent(map[string]any{"inserted": all}, "", "  ")
	if err != nil {
		return fmt.Errorf("noting what was inserted: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(n.path), 0o700); err != nil {
		return fmt.Errorf("creating the state folder: %w", err)
	}
	if err := maybe.WriteFile(n.path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("noting what was inserted: %w", err)
	}
	return nil
}

// load reads all records.
func (n notebook) load() ([]record, error) {
	text, err := os.ReadFile(n.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what was inserted: %w", err)
	}
	var content struct{ Inserted []record }
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, nil // ours to begin anew
	}
	return content.Inserted, nil
}

// same picks the record of an entry.
func same(file, name string) func(record) bool {
	return func(r record) bool { return r.File == file && r.Name == name }
}
