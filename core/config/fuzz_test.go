package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailscale/hujson"
)

// FuzzParse holds that nothing panics, and that every server of the input is
// there again as a server, whatever is wrong with it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		twoServers, `{"mcpServers":{"a":{"command":"${A:-b}","args":["$${"],"env":{"A":1}},"":7,"a":{}}}`,
		`{"servers":[{"name":"a","transport":{"type":"sse","url":"http://u:p@h/?q=r"},"auth":{"type":"bearer","token":"t"}},{}]}`,
		`{"reconnect":{"initialDelayMs":1e99,"jitter":-0},"http":{"listen":"[::1]:1"},"exposeTools":[null]}`,
		"\xEF\xBB\xBF{} // x", `{"mcpServers":null,"servers":{"\u0000":{"url":"\ud800"}}}`, `[`, "{\"a\":\"\\",
	} {
		f.Add([]byte(seed))
	}
	o := options("A=1", "B=")
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data, o)
		var parse *ParseError
		if err != nil {
			if !errors.As(err, &parse) || parse.Message == "" {
				t.Fatalf("error %v", err)
			}
			return
		}
		have := map[string]bool{}
		for _, s := range c.Servers {
			if have[s.Name] {
				t.Fatalf("server %q is there twice", s.Name)
			}
			have[s.Name] = true
			if s.Problem == nil && (s.Type == "" || s.Scope == "" || s.Command == "" && s.URL == "") {
				t.Fatalf("no problem, but %+v", s)
			}
			_ = s.Fingerprint()
		}
		for _, name := range serverNames(t, data) {
			if !have[name] {
				t.Fatalf("server %q is lost", name)
			}
		}
		if !Diff(c, c).Empty() {
			t.Fatal("differs from itself")
		}
	})
}

// serverNames finds the names in another way than the package does.
func serverNames(t *testing.T, data []byte) []string {
	t.Helper()
	text := strings.TrimPrefix(string(data), "\xEF\xBB\xBF") + "\n"
	value, err := hujson.Parse([]byte(text))
	if err != nil {
		t.Fatalf("accepted what is no JSON: %v", err)
	}
	sections := map[string]hujson.Value{}
	for _, m := range value.Value.(*hujson.Object).Members {
		sections[m.Name.Value.(hujson.Literal).String()] = m.Value
	}
	var names []string
	for _, key := range []string{"mcpServers", "servers"} {
		switch section := sections[key].Value.(type) {
		case *hujson.Object:
			for _, m := range section.Members {
				names = append(names, m.Name.Value.(hujson.Literal).String())
			}
		case *hujson.Array:
			for _, element := range section.Elements {
				names = append(names, nameOf(element)...)
			}
		}
	}
	return names
}

// nameOf is the name in an entry of an array, if there is exactly one.
func nameOf(element hujson.Value) []string {
	object, ok := element.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	var names []string
	for _, m := range object.Members {
		if m.Name.Value.(hujson.Literal).String() == "name" {
			if m.Value.Value.Kind() != '"' {
				return nil
			}
			names = append(names, m.Value.Value.(hujson.Literal).String())
		}
	}
	if len(names) != 1 {
		return nil
	}
	return names
}
