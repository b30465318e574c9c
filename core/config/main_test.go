package config

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// variables is a Lookup over a fixed set.
func variables(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, p := range pairs {
			if k, v, _ := strings.Cut(p, "="); k == name {
				return v, true
			}
		}
		return "", false
	}
}

func options(pairs ...string) Options {
	return Options{Lookup: variables(pairs...), Home: "/home/u"}
}

func mustParse(t *testing.T, text string, pairs ...string) *Config {
	t.Helper()
	c, err := Parse("/etc/f/config.json", []byte(text), options(pairs...))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return c
}

// only parses a configuration of one server and returns it.
func only(t *testing.T, entry string, pairs ...string) Server {
	t.Helper()
	c := mustParse(t, `{"mcpServers":{"x":`+entry+`}}`, pairs...)
	if len(c.Servers) != 1 || c.Servers[0].Name != "x" {
		t.Fatalf("servers = %+v, want just x", c.Servers)
	}
	return c.Servers[0]
}

// valid is only for an entry that must have no problem.
func valid(t *testing.T, entry string, pairs ...string) Server {
	t.Helper()
	s := only(t, entry, pairs...)
	if s.Problem != nil {
		t.Fatalf("%s: problem %v, want none", entry, s.Problem)
	}
	return s
}
