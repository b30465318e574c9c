package config

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// folderMark stands for the "$" of a ${PROJECT_DIR} that is not replaced yet. Nothing
// else in an entry holds this character: neither the environment nor a command line
// can, and in a config file it is refused.
const folderMark = "\x00"

// In returns the entry for one project: ${PROJECT_DIR} is folder everywhere in it, an
// absolute path, and an entry without a cwd of its own runs there. With "" the
// defaults of the variable count, and nothing where it has none.
func (s Server) In(folder string) Server {
	plain := func(text string) string { return inFolder(text, folder, nil) }
	all := func(list []string) []string {
		list = slices.Clone(list)
		for i, text := range list {
			list[i] = plain(text)
		}
		return list
	}
	s.Command, s.Args, s.Env = plain(s.Command), all(s.Args), all(s.Env)
	s.EnvFile, s.Watch = plain(s.EnvFile), all(s.Watch)
	s.URL = inFolder(s.URL, folder, escapeFolder)
	s.Headers = maps.Clone(s.Headers)
	for name, value := range s.Headers {
		s.Headers[name] = plain(value)
	}
	if s.Cwd = plain(s.Cwd); !s.OwnCwd && folder != "" {
		s.Cwd = folder
	}
	// A variable that is just the folder is no secret, and stands in many texts.
	s.Secrets = slices.DeleteFunc(all(s.Secrets), func(secret string) bool { return secret == folder })
	return s
}

// inFolder puts folder, or the default when that is empty, into the marked places of
// text. Only the folder is escaped.
func inFolder(text, folder string, escape func(string) string) string {
	if escape != nil {
		folder = escape(folder)
	}
	var out strings.Builder
	for {
		before, rest, marked := strings.Cut(text, folderMark+"{")
		out.WriteString(before)
		if !marked {
			return out.String()
		}
		ref, err := parseReference(rest)
		if err != nil {
			return out.String() + folderMark + "{" + rest // it was parsed before: this does not happen
		}
		if folder != "" {
			out.WriteString(folder)
		} else {
			out.WriteString(ref.fallback)
		}
		text = rest[ref.length:]
	}
}

// escapeFolder makes a path fit for any part of a URL.
func escapeFolder(path string) string {
	escaped := (&url.URL{Path: path}).EscapedPath()
	return strings.NewReplacer("&", "%26", "+", "%2B", "=", "%3D").Replace(escaped)
}
