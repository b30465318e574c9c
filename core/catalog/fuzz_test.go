package catalog

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"mcp-funnel/core/jsonrpc"
)

func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{
		{"", ""}, {"*", "a"}, {"a*b*c", "axbxc"}, {"a*a", "a"}, {"*ab*ab*", "ababab"}, {"a.b", "axb"}, {"**", ""},
		{"gh__*_delete", "gh__x_delete"}, {"(*[", "(x["}, {"a*\n", "a\n\n"}, {"ü*", "üü"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(name) || len(pattern) > 900 {
			t.Skip("regexp cannot say")
		}
		oracle := regexp.MustCompile(`^(?s:` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `)$`)
		// $ means the end of the text here, with a newline before it or not.
		if got, want := Pattern(pattern).Matches(name), oracle.MatchString(name); got != want {
			t.Fatalf("%q on %q: %v, want %v", pattern, name, got, want)
		}
	})
}

// FuzzNames cuts prefixes and tools out of two texts at commas and lists them all.
func FuzzNames(f *testing.F) {
	f.Add("a,a_,a__b,_,a__", "b,_b,b__c,c,__b", byte(35))
	f.Add("github,my server,工", "calendar.respond,a:b,a/b,ü,🚀", byte(0))
	f.Add("s", strings.Repeat("x", 60)+","+strings.Repeat("x", 61)+","+strings.Repeat("x", 61)+"y", byte(35))
	f.Add("a,a\x00,\xff,\xfe", "\xff,\xfe, ,\t", byte(99))
	f.Fuzz(func(t *testing.T, prefixes, tools string, length byte) {
		budget := shortest + int(length)
		var sources []Source
		seen := make(map[string]bool)
		want := 0
		for prefix := range strings.SplitSeq(prefixes, ",") {
			// An empty prefix may clash by design, and quoting makes one of all
			// that is no UTF-8.
			if prefix == "" || !utf8.ValidString(prefix) || seen[prefix] {
				continue
			}
			seen[prefix] = true
			source := server(prefix)
			own := make(map[string]bool)
			for tool := range strings.SplitSeq(tools, ",") {
				if tool == "" || !utf8.ValidString(tool) || own[tool] {
					continue
				}
				own[tool] = true
				source.Tools = append(source.Tools, server(prefix, tool).Tools...)
				want++
			}
			sources = append(sources, source)
		}
		view := New(sources, Filter{}).View(budget)
		listed(t, view)
		if len(view.Entries) != want {
			t.Fatalf("%d of %d tools are listed: %q", len(view.Entries), want, names(view))
		}
		for _, name := range names(view) {
			if !validName.MatchString(name) || len(name) > budget {
				t.Fatalf("%q is no name within %d", name, budget)
			}
		}
	})
}

// FuzzRepair gives one tool to clients. What encoding/json reads of it must be what
// it reads of the original, apart from the documented repairs.
func FuzzRepair(f *testing.F) {
	for _, seed := range []string{
		entire, `{"name":"x"}`, `{"name":"x","inputSchema":null,"description":null}`, `{"name":"x","inputSchema":{"anyOf":[{}],"type":["object"]}}`,
		`{"name":"x","annotations":{"title":null},"outputSchema":{"type":"array"}}`, `{"name":"x","outputSchema":{},"inputSchema":[]}`, `[]`, `{ }`,
		`{"name":"x","\ud800":null,"inputSchema":{"\ud800":1,"oneOf":1}}`, `{"name":"x","inputSchema":1,"inputSchema":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, tool []byte) {
		tool = bytes.TrimSpace(tool) // as an element of a list
		var before map[string]json.RawMessage
		// Bytes that are no UTF-8 pass through; encoding/json cannot confirm it.
		if !utf8.Valid(tool) || json.Unmarshal(tool, &before) != nil || repeats(tool) {
			t.Skip("no tool to compare")
		}
		var name string
		if json.Unmarshal(before["name"], &name) != nil || name == "" {
			return
		}
		after := repaired(t, string(tool))
		for key, value := range before {
			got := string(after[key])
			switch {
			case key == "name" || key == "inputSchema" || key == "outputSchema" || key == "annotations":
			case string(value) == "null":
				if got != "" {
					t.Fatalf("%q is still null", key)
				}
			case got != string(value):
				t.Fatalf("%q was %s and became %s", key, value, got)
			}
		}
		for key := range after {
			if _, ok := before[key]; !ok && key != "inputSchema" {
				t.Fatalf("%q was not there", key)
			}
		}
		var root map[string]json.RawMessage
		if err := json.Unmarshal(after["inputSchema"], &root); err != nil || string(root["type"]) != `"object"` || root["properties"] == nil ||
			root["properties"][0] != '{' || root["anyOf"] != nil || root["oneOf"] != nil || root["allOf"] != nil {
			t.Fatalf("the schema is %s, %v", after["inputSchema"], err)
		}
		for key, value := range root {
			if string(value) == "null" {
				t.Fatalf("%q of the schema is null", key)
			}
		}
	})
}

// repeats reports whether a key stands twice in the tool or in its schemas, in the
// eyes of encoding/json, for which all lone surrogates are one.
func repeats(object []byte) bool {
	seen := make(map[string]bool)
	for key, value := range jsonrpc.Members(object, jsonrpc.Whole(object)) {
		var name string
		if json.Unmarshal(key.Of(object), &name) != nil || seen[name] {
			return true
		}
		seen[name] = true
		if strings.HasSuffix(name, "Schema") && repeats(value.Of(object)) {
			return true
		}
	}
	return false
}
