package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiff(t *testing.T) {
	const base = `{"mcpServers":{"a":{"command":"a"},"b":{"command":"b","reconnect":{"jitter":0.1}},"c":{"url":"http://c/","headers":{"H":"v"}}}}`
	for name, tc := range map[string]struct {
		text string
		want Changes
	}{
		"same":            {base, Changes{}},
		"moved lines":     {strings.ReplaceAll(base, ",", ",\n\n"), Changes{}},
		"one changed":     {strings.Replace(base, `"command":"a"`, `"command":"a2"`, 1), Changes{Changed: []string{"a"}}},
		"header changed":  {strings.Replace(base, `"v"`, `"w"`, 1), Changes{Changed: []string{"c"}}},
		"own override":    {strings.Replace(base, `0.1`, `0.2`, 1), Changes{Changed: []string{"b"}}},
		"disabled":        {strings.Replace(base, `"command":"a"`, `"command":"a","disabled":true`, 1), Changes{Changed: []string{"a"}}},
		"prefix":          {strings.Replace(base, `"command":"a"`, `"command":"a","prefix":""`, 1), Changes{Changed: []string{"a"}}},
		"now wrong":       {strings.Replace(base, `"command":"a"`, `"command":"a","args":1`, 1), Changes{Changed: []string{"a"}}},
		"added, removed":  {strings.Replace(base, `"a":{`, `"n":{`, 1), Changes{Added: []string{"n"}, Removed: []string{"a"}}},
		"inherited":       {strings.Replace(base, `{"mcp`, `{"reconnect":{"maxAttempts":1,"jitter":0.9},"mcp`, 1), Changes{Global: true}},
		"exposes nothing": {strings.Replace(base, `{"mcp`, `{"exposeTools":[],"mcp`, 1), Changes{Global: true}},
		"hides":           {strings.Replace(base, `{"mcp`, `{"hideTools":["x"],"mcp`, 1), Changes{Global: true}},
		"order": {
			`{"mcpServers":{"c":{"url":"http://c/","headers":{"H":"v"}},"a":{"command":"a"},"b":{"command":"b","reconnect":{"jitter":0.1}}}}`,
			Changes{Global: true},
		},
	} {
		if diff := cmp.Diff(tc.want, Diff(mustParse(t, base), mustParse(t, tc.text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := Diff(nil, mustParse(t, base)); !cmp.Equal(got, Changes{Added: []string{"a", "b", "c"}}) {
		t.Errorf("from nothing: %+v", got)
	}
	if !Diff(nil, nil).Empty() || (Changes{Global: true}).Empty() {
		t.Error("Empty is wrong")
	}
}

func TestDiffSeesAChangedVariable(t *testing.T) {
	const text = `{"mcpServers":{"a":{"url":"http://h/","auth":{"token":"${T}"}},"b":{"command":"b"}}}`
	got := Diff(mustParse(t, text, "T=old-token"), mustParse(t, text, "T=new-token"))
	if !cmp.Equal(got, Changes{Changed: []string{"a"}}) {
		t.Errorf("changes %+v", got)
	}
}

func TestDiffIgnoresWhereAProblemStands(t *testing.T) {
	got := Diff(mustParse(t, `{"mcpServers":{"a":{}}}`), mustParse(t, "{\n\n\"mcpServers\":{\"a\":{}}}"))
	if !got.Empty() {
		t.Errorf("changes %+v", got)
	}
}

func TestFingerprint(t *testing.T) {
	entry := `{"command":"c","args":["a","b"],"env":{"T":"hush-hush"}}`
	s := valid(t, entry)
	if s.Fingerprint() != valid(t, entry).Fingerprint() || strings.Contains(s.Fingerprint(), "hush") || len(s.Fingerprint()) != 64 {
		t.Errorf("fingerprint %q", s.Fingerprint())
	}
	for _, other := range []string{
		`{"command":"c","args":["a b"],"env":{"T":"hush-hush"}}`, `{"command":"c","args":["a","b"],"env":{"T":"other"}}`,
		`{"command":"d","args":["a","b"],"env":{"T":"hush-hush"}}`, `{"command":"c","args":["a","b"],"env":{"T":"hush-hush"},"cwd":"/x"}`,
		`{"url":"http://h/"}`,
	} {
		if valid(t, other).Fingerprint() == s.Fingerprint() {
			t.Errorf("%s has the same fingerprint", other)
		}
	}
	if valid(t, `{"command":"c","args":["a","b"],"env":{"T":"hush-hush"},"timeout":5,"prefix":"p"}`).Fingerprint() != s.Fingerprint() {
		t.Error("how a server is treated changes its fingerprint")
	}
}
