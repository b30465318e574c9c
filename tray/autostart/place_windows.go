package autostart

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

const (
	// runKey has what Windows starts at login, a command line for each name.
	runKey = `Software\Microsoft\Windows\CurrentVersion\Run`
	// approvedKey has what the user switched off in the Task Manager: by an odd
	// first byte.
	approvedKey = `Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run`
	valueName   = "MCP Funnel"
)

// runValue keeps the entry in the user's part of the registry.
type runValue struct {
	options Options
}

func newPlace(o Options) place { return runValue{options: o} }

func (r runValue) status() (Status, error) {
	s := Status{File: `HKCU\` + runKey + `\` + valueName}
	command, err := readRunValue()
	s.On = err == nil && command != "" && approved()
	return s, err
}

// readRunValue returns "" where there is none.
func readRunValue() (string, error) {
	key, err := registry.OpenKey(registry.CURRENT_USER, runKey, registry.QUERY_VALUE)
	if errors.Is(err, registry.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the autostart entry: %w", err)
	}
	defer func() { _ = key.Close() }() // it was only read
	command, _, err := key.GetStringValue(valueName)
	if err != nil && !errors.Is(err, registry.ErrNotExist) {
		return "", fmt.Errorf("reading the autostart entry: %w", err)
	}
	return command, nil
}

// approved reports whether the Task Manager lets the entry start.
func approved() bool {
	key, err := registry.OpenKey(registry.CURRENT_USER, approvedKey, registry.QUERY_VALUE)
	if err != nil {
		return true // nobody ever switched anything off there
	}
	defer func() { _ = key.Close() }() // it was only read
	state, _, err := key.GetBinaryValue(valueName)
	return err != nil || len(state) == 0 || state[0]&1 == 0
}

func (r runValue) enable() error {
	if err := deleteValue(approvedKey); err != nil {
		return err
	}
	return r.write()
}

func (r runValue) write() error {
	key, _, err := registry.CreateKey(registry.CURRENT_USER, runKey, registry.SET_VALUE)
	if err != nil {
		return fmt.Errorf("writing the autostart entry: %w", err)
	}
	defer func() { _ = key.Close() }() // the value is there once it was set
	if err := key.SetStringValue(valueName, windows.ComposeCommandLine(r.options.arguments())); err != nil {
		return fmt.Errorf("writing the autostart entry: %w", err)
	}
	return nil
}

func (r runValue) disable() error { return deleteValue(runKey) }

// deleteValue deletes our value under a key, where there is one.
func deleteValue(path string) error {
	key, err := registry.OpenKey(registry.CURRENT_USER, path, registry.SET_VALUE)
	if err == nil {
		err = key.DeleteValue(valueName)
		_ = key.Close() // the value is gone once it was deleted
	}
	if err != nil && !errors.Is(err, registry.ErrNotExist) {
		return fmt.Errorf("removing the autostart entry: %w", err)
	}
	return nil
}

// refresh takes a value under our name as ours: nobody else uses it.
func (r runValue) refresh() (bool, error) {
	command, err := readRunValue()
	if err != nil || command == "" {
		return false, err
	}
	arguments, err := windows.DecomposeCommandLine(command)
	if err != nil || len(arguments) == 0 || !missing(arguments[0]) {
		return false, nil // also where somebody has written another command line
	}
	return true, r.write()
}
