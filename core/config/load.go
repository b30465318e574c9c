package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/adrg/xdg"
)

// Options is what a configuration depends on besides its text.
type Options struct {
	// Lookup finds the variables of ${...}. nil: this process's environment.
	Lookup func(name string) (string, bool)
	// Home is what "~" stands for. Empty: the home folder of this user.
	Home string
	// BasePath is a file to be read below the main one, or empty.
	// See [DefaultBasePath].
	BasePath string
}

// withDefaults fills in what is left empty.
func (o Options) withDefaults() Options {
	if o.Lookup == nil {
		o.Lookup = os.LookupEnv
	}
	if o.Home == "" {
		// Without a home folder entries that need one say so themselves.
		o.Home, _ = os.UserHomeDir()
	}
	return o
}

// DefaultPath is where the configuration lies if the user names no other file:
// what MCP_FUNNEL_CONFIG says, else mcp-funnel/config.json in the folder for
// configurations (XDG_CONFIG_HOME, or the platform's own).
func DefaultPath() string {
	if path := os.Getenv("MCP_FUNNEL_CONFIG"); path != "" {
		return path
	}
	xdg.Reload() // it reads the environment once, at start; follow changes
	return filepath.Join(xdg.ConfigHome, "mcp-funnel", "config.json")
}

// DefaultBasePath is the file of the original project in the home folder.
func DefaultBasePath(home string) string {
	return filepath.Join(home, ".mcp-funnel", ".mcp-funnel.json")
}

// source is a file's name and content.
type source struct {
	path string
	data []byte
}

// Load reads the file at path, on top of the base file if there is one. Files
// that do not exist count as empty. A file that cannot be read as a
// configuration is a [*ParseError], and nothing of the other one is used then.
// No file is ever written.
func Load(path string, o Options) (*Config, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("finding the config file: %w", err)
	}
	paths := []string{path}
	if o.BasePath != "" && filepath.Clean(o.BasePath) != path {
		paths = []string{o.BasePath, path}
	}
	var sources []source
	for _, p := range paths {
		data, err := readFile(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		sources = append(sources, source{path: p, data: data})
	}
	return build(path, sources, o)
}

// Parse reads one file's content; file is its name, for findings and as the
// place from which relative paths go. A content that cannot be read as a
// configuration is a [*ParseError].
func Parse(file string, data []byte, o Options) (*Config, error) {
	return build(file, []source{{path: file, data: data}}, o)
}

// readFile reads a regular file. A missing one is fs.ErrNotExist, any other
// failure a *ParseError.
func readFile(path string) ([]byte, error) {
	fail := func(message string, err error) error {
		return &ParseError{Issue: Issue{File: path, Message: message}, Err: err}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, fail("cannot be read: "+cause(err), err)
	case !info.Mode().IsRegular():
		// Opening a pipe would wait for a writer.
		return nil, fail("is not a regular file", nil)
	case info.Size() > maxFileSize:
		return nil, fail(fmt.Sprintf("larger than %d MiB: this is not a configuration", maxFileSize>>20), nil)
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fail("cannot be read: "+cause(err), err)
	}
	return data, err
}

// cause is what an error of the file system says without the path.
func cause(err error) string {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err.Error()
	}
	return err.Error()
}

// build makes the configuration of the sources, the base first. The settings
// of all files come first: servers inherit from the last word on each.
func build(path string, sources []source, o Options) (*Config, error) {
	o = o.withDefaults()
	c := defaults()
	c.Path = path
	var docs []*document
	for _, s := range sources {
		d, err := parseDocument(s.path, s.data)
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
		c.Files = append(c.Files, s.path)
		d.settings(c)
	}
	guardHTTP(c, docs)
	for _, d := range docs {
		list, err := d.servers(c.Reconnect, o)
		if err != nil {
			return nil, err
		}
		c.Servers = overlay(c.Servers, list)
	}
	for _, d := range docs {
		slices.SortStableFunc(d.warnings, func(a, b Issue) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		c.Warnings = append(c.Warnings, d.warnings...)
	}
	return c, nil
}

// overlay puts the servers of top over those of base: in the place of the one
// with the same name, else behind all.
func overlay(base, top []Server) []Server {
	for _, s := range top {
		at := slices.IndexFunc(base, func(b Server) bool { return b.Name == s.Name })
		if at >= 0 {
			base[at] = s
		} else {
			base = append(base, s)
		}
	}
	return base
}
