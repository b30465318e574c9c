package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/google/renameio/v2/maybe"
)

// state is state.json: what the user chose in the menu or on the command line and
// what must survive a restart.
type state struct {
	path string
	// broken is why the file could not be read. Then it is not written either: it
	// may hold more than we understand.
	broken error

	mu sync.Mutex
	// fields are all members of the file, those of other versions too.
	fields map[string]json.RawMessage
	off    []string
	// noNotices: the user switched notifications off in the menu.
	noNotices bool
}

// openState reads the file at path; a missing one is empty.
func openState(path string) *state {
	s := &state{path: path, fields: make(map[string]json.RawMessage)}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s
	}
	if err == nil {
		err = json.Unmarshal(data, &s.fields)
	}
	if s.fields == nil { // the file says null
		s.fields = make(map[string]json.RawMessage)
	}
	if list, ok := s.fields["disabled"]; err == nil && ok {
		err = json.Unmarshal(list, &s.off)
	}
	if notices, ok := s.fields["notifications"]; err == nil && ok {
		wanted := true
		err = json.Unmarshal(notices, &wanted)
		s.noNotices = !wanted
	}
	if err != nil {
		s.broken = fmt.Errorf("reading %s: %w; mend or delete it", path, err)
	}
	return s
}

// disabled reports whether the user switched the server off.
func (s *state) disabled(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.off, server)
}

// setDisabled notes that the user switched the server off, or on again.
func (s *state) setDisabled(server string, off bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	list := slices.DeleteFunc(slices.Clone(s.off), func(name string) bool { return name == server })
	if off {
		list = append(list, server)
	}
	encoded, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encoding state: %w", err)
	}
	s.off, s.fields["disabled"] = list, encoded
	return s.write()
}

// notifications reports whether the user wants any, as far as the menu goes.
func (s *state) notifications() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.noNotices
}

// setNotifications notes whether the user wants any.
func (s *state) setNotifications(on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	s.fields["notifications"] = json.RawMessage(strconv.FormatBool(on))
	if err := s.write(); err != nil {
		return err
	}
	s.noNotices = !on
	return nil
}

// write replaces the file in one step. s.mu is held.
func (s *state) write() error {
	data, err := json.MarshalIndent(s.fields, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding state: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return fmt.Errorf("making the state folder: %w", err)
	}
	if err := maybe.WriteFile(s.path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing state: %w", err)
	}
	return nil
}
