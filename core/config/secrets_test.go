package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestC103_SecretsAreKnown(t *testing.T) {
	for entry, want := range map[string][]string{
		`{"command":"c","env":{"K":"canary-1","D":"true","N":"development","S":"abc"}}`: {"canary-1"},
		`{"url":"https://us3r:p%40ss@h/p?token=canary%202&x=1","headers":{"Authorization":"Bearer canary-3","Accept":"application/json"}}`: {
			"Bearer canary-3", "us3r:p%40ss", "canary%202", "canary 2", "canary-3", "p%40ss", "p@ss", "us3r",
		},
		`{"url":"https://h/","auth":{"token":"canary-4"}}`:                                                {"Bearer canary-4", "canary-4"},
		`{"command":"docker","args":["run","-e","KEY=canary-5","--env","A=canary-6","--env=B=canary-7"]}`: {"canary-5", "canary-6", "canary-7"},
		`{"command":"npx","args":["--api-key","canary-8","--token=canary-9","-y","pkg-name"]}`:            {"canary-8", "canary-9"},
		`{"command":"npx","args":["mcp-remote","https://h/?k=canary10","--header","X-Key: canary11"]}`:    {"canary10", "canary11"},
		`{"command":"pg","args":["postgres://root:canary12@db/x"]}`:                                       {"root:canary12", "canary12", "root"},
		`{"command":"c","args":["${MY_TOKEN}","${PLAIN}"],"cwd":"/x"}`:                                    {"canary13"},
	} {
		got := valid(t, entry, "MY_TOKEN=canary13", "PLAIN=visible").Secrets
		for i := 1; i < len(got); i++ {
			if len(got[i]) > len(got[i-1]) {
				t.Errorf("%s: %q is not sorted by length", entry, got)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", entry, diff)
		}
	}
}

func TestInvariant8_FindingsShowNoValue(t *testing.T) {
	c := mustParse(t, `{"mcpServers":{
		"a":{"command":"c","env":{"K":["canary"]},"args":["canary","${canary"],"cwd":"canary${}"},
		"b":{"url":"canary://u:canary@h/?t=canary","headers":{"A":"canary\n"},"auth":{"type":"canary2","token":{"canary3":1}}},
		"c":{"url":"http://h:canary/","auth":{"token":"canary\r"}}},
		"http":{"listen":"canary"},"names":{"maxLength":"canary"}}`)
	all := c.Warnings
	for _, s := range c.Servers {
		if s.Problem == nil {
			t.Fatalf("%s has no problem", s.Name)
		}
		all = append(all, *s.Problem)
	}
	for _, i := range all {
		if strings.Contains(i.Error(), "canary") {
			t.Errorf("shows a value: %v", i)
		}
	}
}

func TestReadEnvFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".env")
	write(t, path, "\xEF\xBB\xBF# comment\r\nexport B=\"two words\"\r\nA=1 # one\nC='$A'\nTOKEN=canary-1\n")
	env, err := ReadEnvFile(path)
	if diff := cmp.Diff([]string{"A=1", "B=two words", "C=$A", "TOKEN=canary-1"}, env); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got := EnvSecrets(env); !slices.Equal(got, []string{"two words", "canary-1"}) {
		t.Errorf("EnvSecrets = %q", got)
	}
	for _, text := range []string{"canary", "A=\"canary", "can-ary=x", "A=canary\x00"} {
		write(t, path, text)
		if env, err := ReadEnvFile(path); err == nil || strings.Contains(err.Error(), "ary") || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %q, %v", text, env, err)
		}
	}
	if _, err := ReadEnvFile(path + ".none"); err == nil || !strings.Contains(err.Error(), path+".none") {
		t.Errorf("missing file: %v", err)
	}
	if _, err := ReadEnvFile(filepath.Dir(path)); err == nil {
		t.Error("a folder is taken for an env file")
	}
}
