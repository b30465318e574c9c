package clients

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// ClaudeCode is the name of Anthropic's command line client.
const ClaudeCode = "claude-code"

// Known are the names of the clients that [Find] knows.
func Known() []string { return []string{ClaudeCode} }

// UnknownError says that nothing is known about a client.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown client %q: there are %s", e.Name, strings.Join(Known(), ", "))
}

// SyntaxError says that a client's file cannot be understood, and where. Nothing was
// written.
type SyntaxError struct {
	File string
	// Line and Column count from 1, Column in characters.
	Line, Column int
	// Message says what is wrong; it holds no values of the file.
	Message string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// ForeignError says that the client has an entry of that name that is not ours.
// Nothing was written.
type ForeignError struct {
	File string
	// Line counts from 1.
	Line int
	Name string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s:%d: %s.%s is there and does not run the bridge of MCP Funnel; it was left alone", e.File, e.Line, serversKey, e.Name)
}

// Options is what a client's place depends on.
type Options struct {
	// Home is the user's home folder.
	Home string
	// StateDir is the folder in which to keep what was inserted where.
	StateDir string
	// Getenv reads the environment.
	Getenv func(name string) string
	// LookPath finds a command; see [os/exec.LookPath].
	LookPath func(name string) (string, error)
}

// Client is one MCP client of this user.
type Client struct {
	// file is the client's configuration.
	file string
	// tool is the client's own command, empty where it is not installed.
	tool  string
	notes notebook
}

// Find returns the client of that name, or an [*UnknownError]. Nothing has to be
// installed.
func Find(name string, o Options) (*Client, error) {
	if !slices.Contains(Known(), name) {
		return nil, &UnknownError{Name: name}
	}
	c := &Client{file: claudeFile(o), notes: notebook{filepath.Join(o.StateDir, "connect.json")}}
	if tool, err := o.LookPath("claude"); err == nil {
		c.tool = tool
	}
	return c, nil
}

// Connect makes the client run the entry. Before anything is written agree is asked,
// whose error ends it; it is not asked when there is nothing to do. Connect returns
// what was done, and fails with a [*SyntaxError] or a [*ForeignError] where the file
// is not one to be touched.
func (c *Client) Connect(ctx context.Context, e Entry, agree func(Change) error) (Change, error) {
	return c.carryOut(ctx, agree, func() (step, error) { return c.planConnect(e) })
}

// Disconnect takes out the entry of that name, if it is one of ours: command is where
// this program lies. It is otherwise like [Client.Connect].
func (c *Client) Disconnect(ctx context.Context, name, command string, agree func(Change) error) (Change, error) {
	return c.carryOut(ctx, agree, func() (step, error) { return c.planDisconnect(name, command) })
}
