package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestUnknownKeysWarnOnceWithTheirPath(t *testing.T) {
	c := mustParse(t, `{"$schema": "s", "toolsets": {"a": 1},
 "mcpServers": {"git hub": {"command": "c", "toolFilter": [], "transport": {"timeout": 1}, "reconnect": {"x": 1}}},
 "names": {"y": 1}, "notifications": {"z": 1}, "http": {"w": 1}, "reconnect": {"v": 1}}`)
	var got []string
	for _, w := range c.Warnings {
		if w.Message != "unknown key, ignored" {
			t.Errorf("warning %v", w)
		}
		got = append(got, w.Path)
	}
	want := []string{
		"$schema", "toolsets", `mcpServers["git hub"].toolFilter`, `mcpServers["git hub"].transport.timeout`,
		`mcpServers["git hub"].reconnect.x`, "names.y", "notifications.z", "http.w", "reconnect.v",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if w := c.Warnings[2]; w.Line != 2 || w.Column != 45 {
		t.Errorf("toolFilter at %d:%d, want 2:45", w.Line, w.Column)
	}
}

func TestDuplicateKeysWarnAndTheLastWins(t *testing.T) {
	c := mustParse(t, `{"mcpServers": {"a": {"command": "1"}, "b": {"command": "c", "command": "d", "env": {"K": "1", "L": "2", "K": "3"}},
		"a": {"command": "2"}}, "servers": [{"name": "b", "command": "e"}]}`)
	if len(c.Servers) != 2 || c.Servers[0].Name != "a" || c.Servers[0].Command != "2" || c.Servers[1].Command != "e" {
		t.Errorf("servers %+v", c.Servers)
	}
	var got []string
	for _, w := range c.Warnings {
		got = append(got, w.Path)
	}
	want := []string{"mcpServers.b.command", "mcpServers.b.env.K", "mcpServers.a", "servers[0]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestServersAsAnArrayOfTheOriginal(t *testing.T) {
	c := mustParse(t, `{"servers": [
 {"name": "a", "transport": {"type": "stdio", "command": "c", "env": {"X": "inner"}}, "env": {"X": "outer", "Y": "1"}},
 {"command": "c"}, {"name": 7, "command": "c"}, "b"]}`)
	if len(c.Servers) != 4 || len(c.Warnings) != 0 {
		t.Fatalf("servers %+v, warnings %v", c.Servers, c.Warnings)
	}
	var got []string
	for _, s := range c.Servers {
		line := s.Name
		if s.Problem != nil {
			line += " " + s.Problem.Path + ": " + s.Problem.Message
		}
		got = append(got, line)
	}
	want := []string{
		"a", "servers[1] servers[1]: missing name", "servers[2] servers[2].name: must be a string, but is a number",
		"servers[3] servers[3]: must be an object, but is a string",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	slices.Sort(c.Servers[0].Env)
	if diff := cmp.Diff([]string{"X=inner", "Y=1"}, c.Servers[0].Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
}

func TestServerNames(t *testing.T) {
	for name, want := range map[string]string{
		"": "empty", strings.Repeat("é", 65): "longer than 64", "a/b": "holds a", `a\\b`: "holds a", "a\\u0007": "control",
		"a\\u0085": "control", strings.Repeat("é", 64): "", "a b.c": "", "..": "", "日本": "",
	} {
		c := mustParse(t, `{"mcpServers":{"`+name+`":{"command":"c"}}}`)
		bad := c.Servers[0].Problem
		if (bad == nil) != (want == "") || bad != nil && !strings.Contains(bad.Message, want) {
			t.Errorf("%q: problem %v, want %q", name, bad, want)
		}
	}
}

func TestEscapedVariables(t *testing.T) {
	vars := []string{"A=1", "B=${A}", "C=$"}
	for text, want := range map[string]string{
		"$${A}": "${A}", "$$${A}": "$${A}", "$${": "${", "${A}$${A}${A}": "1${A}1", "$A $ $$ }": "$A $ $$ }",
		"${B}": "${A}", "${C}${A}": "$1", "${C}{A}": "${A}", "${X:-}": "", "${X:}": "", "${X:-a:b}": "a:b", "${A:-z}": "1",
		"${X:- }": " ", "${PROJECT_DIR}/x": "\x00{PROJECT_DIR}/x", "${PROJECT_DIR:-/y}": "\x00{PROJECT_DIR:-/y}",
		"$${PROJECT_DIR}${PROJECT_DIR}": "${PROJECT_DIR}\x00{PROJECT_DIR}",
	} {
		got, err := expand(text, variables(vars...))
		if err != nil || got.text != want {
			t.Errorf("expand(%q) = %q, %v; want %q", text, got.text, err, want)
		}
	}
	for _, text := range []string{"${", "${}", "${ A}", "${A ", "${A-x}", "${é}", "${A:${B}}", "${X}", "a ${X"} {
		if got, err := expand(text, variables(vars...)); err == nil {
			t.Errorf("expand(%q) = %q, want an error", text, got.text)
		}
	}
}

func TestProjectDirMakesTheScopeProject(t *testing.T) {
	s := valid(t, `{"command":"c","cwd":"${PROJECT_DIR}/sub","envFile":".env"}`, "PROJECT_DIR=/wrong")
	if in := s.In("/p"); s.Scope != PerProject || in.Cwd != "/p/sub" || in.EnvFile != "/p/sub/.env" {
		t.Errorf("scope %s, cwd %s, envFile %s", s.Scope, in.Cwd, in.EnvFile)
	}
	if s := valid(t, `{"command":"c","args":["${PROJECT_DIR}"],"scope":"session"}`); s.Scope != PerSession {
		t.Errorf("scope %s, want what the entry says", s.Scope)
	}
	if s := valid(t, `{"command":"c","args":["$${PROJECT_DIR}"]}`); s.Scope != Shared {
		t.Errorf("scope %s, want shared: the variable is escaped", s.Scope)
	}
}

func TestCAFile(t *testing.T) {
	for entry, want := range map[string]string{
		`{"url":"https://h/","caFile":"ca.pem"}`:                         "/etc/f/ca.pem",
		`{"url":"https://h/","caFile":"~/ca.pem"}`:                       "/home/u/ca.pem",
		`{"url":"https://h/","caFile":"${CERTS}/ca.pem"}`:                "/certs/ca.pem",
		`{"transport":{"type":"sse","url":"https://h/","caFile":"/ca"}}`: "/ca",
		`{"url":"https://h/","caFile":null}`:                             "",
		`{"url":"https://h/","caFile":""}`:                               "",
	} {
		if s := valid(t, entry, "CERTS=/certs"); s.CAFile != want {
			t.Errorf("%s: caFile %q, want %q", entry, s.CAFile, want)
		}
	}
	with, without := valid(t, `{"url":"https://h/","caFile":"/ca"}`), valid(t, `{"url":"https://h/"}`)
	if with.Fingerprint() == without.Fingerprint() {
		t.Error("the fingerprint leaves caFile out")
	}
	// Lists are remembered under the fingerprint: it stays for those who have no caFile.
	if got := without.Fingerprint(); got != "a09c3e667bc16d76ee7cc722243e95819657365cf6080a5ac0dda8d67b91d59f" {
		t.Errorf("the fingerprint of an entry without caFile became %s", got)
	}
}

func TestRelativePaths(t *testing.T) {
	s := valid(t, `{"command":"./run","envFile":".env","watch":["./dist","/abs"]}`)
	if s.Command != "./run" || s.EnvFile != "/etc/f/.env" || !slices.Equal(s.Watch, []string{"/etc/f/dist", "/abs"}) {
		t.Errorf("without cwd: %+v", s)
	}
	s = valid(t, `{"command":"c","cwd":"sub","envFile":".env","watch":["dist"]}`)
	if s.Cwd != "/etc/f/sub" || s.EnvFile != "/etc/f/sub/.env" || s.Watch[0] != "/etc/f/sub/dist" {
		t.Errorf("with cwd: %+v", s)
	}
}

func TestTimeouts(t *testing.T) {
	for entry, want := range map[string]time.Duration{
		`{"command":"c","timeout":3}`:                         3 * time.Second,
		`{"command":"c","timeout":0.5}`:                       500 * time.Millisecond,
		`{"command":"c","callTimeoutMs":1500}`:                1500 * time.Millisecond,
		`{"command":"c","timeout":3,"callTimeoutMs":1500}`:    1500 * time.Millisecond,
		`{"command":"c","callTimeoutMs":15e2,"timeout":null}`: 1500 * time.Millisecond,
		`{"command":"c","callTimeoutMs":null,"timeout":3}`:    3 * time.Second,
	} {
		if s := valid(t, entry); s.CallTimeout != want {
			t.Errorf("%s: %v, want %v", entry, s.CallTimeout, want)
		}
	}
}

func TestPrefixCanBeEmpty(t *testing.T) {
	if s := valid(t, `{"command":"c","prefix":""}`); s.Prefix != "" {
		t.Errorf("prefix %q", s.Prefix)
	}
}

func TestReconnectIsInheritedAndOverridden(t *testing.T) {
	c := mustParse(t, `{"mcpServers":{"a":{"command":"c","autoReconnect":{"maxAttempts":0,"jitter":0}},"b":{"command":"c"}},
		"reconnect":{"maxAttempts":3,"initialDelayMs":10,"enabled":false}}`)
	a, b := c.Servers[0].Reconnect, c.Servers[1].Reconnect
	if a.MaxAttempts != 0 || a.Jitter != 0 || a.InitialDelay != 10*time.Millisecond || a.Enabled {
		t.Errorf("a: %+v", a)
	}
	if b != c.Reconnect || b.MaxAttempts != 3 || b.Jitter != 0.25 {
		t.Errorf("b: %+v", b)
	}
}

func TestWrongSettingsWarnAndSayWhatHolds(t *testing.T) {
	for text, want := range map[string]string{
		`"reconnect":{"initialDelayMs":9}`:      "reconnect.initialDelayMs: must be whole milliseconds, 10 or more; 1000 ms holds",
		`"reconnect":{"initialDelayMs":1e400}`:  "reconnect.initialDelayMs: must be whole milliseconds, 10 or more; 1000 ms holds",
		`"reconnect":{"maxAttempts":1.5}`:       "reconnect.maxAttempts: must be a whole number; 10 holds",
		`"reconnect":{"backoffMultiplier":0.5}`: "reconnect.backoffMultiplier: must be a number from 1 to 1000; 2 holds",
		`"reconnect":{"enabled":1}`:             "reconnect.enabled: must be true or false, but is a number; true holds",
		`"reconnect":[]`:                        "reconnect: must be an object, but is an array; the default holds",
		`"notifications":true`:                  "notifications: must be an object, but is true or false; the defaults hold",
		`"notifications":{"afterMs":"x"}`:       "notifications.afterMs: must be whole milliseconds, 0 or more; 10000 ms holds",
		`"names":{"maxLength":8}`:               "names.maxLength: must be 0 (by client) or a whole number from 16 to 1024; 0 holds",
		`"http":{"listen":"0.0.0.0:7877"}`:      `http.listen: other machines can reach this address; use 127.0.0.1, [::1] or localhost, or set "allowRemote": true beside it; there is no HTTP endpoint now`,
		`"http":{"listen":":7877"}`:             `http.listen: other machines can reach this address; use 127.0.0.1, [::1] or localhost, or set "allowRemote": true beside it; there is no HTTP endpoint now`,
		`"http":{"listen":"7877"}`:              `http.listen: must be an IP address and a port, for example 127.0.0.1:7877; "" holds`,
		`"exposeTools":{}`:                      "exposeTools: must be a list of strings, but is an object; the default holds",
		`"hideTools":["a",1]`:                   "hideTools[1]: must be a string, but is a number; ignored, the other patterns hold",
	} {
		c := mustParse(t, "{"+text+"}")
		if len(c.Warnings) != 1 || !strings.HasSuffix(c.Warnings[0].Error(), ": "+want) {
			t.Errorf("%s:\n got %v\nwant %s", text, c.Warnings, want)
		}
		c.Warnings, c.Path, c.Files = nil, "", nil
		if strings.HasPrefix(text, `"hideTools`) {
			if !slices.Equal(c.HideTools, []string{"a"}) {
				t.Errorf("%s: hides %v", text, c.HideTools)
			}
			c.HideTools = nil
		}
		if diff := cmp.Diff(defaults(), c); diff != "" {
			t.Errorf("%s (-default +got):\n%s", text, diff)
		}
	}
}

func TestToolPatterns(t *testing.T) {
	if c := mustParse(t, `{"exposeTools":[],"hideTools":["a*"]}`); c.ExposeTools == nil || len(c.ExposeTools) != 0 || c.HideTools[0] != "a*" {
		t.Errorf("expose %#v, hide %v", c.ExposeTools, c.HideTools)
	}
	if c := mustParse(t, `{"exposeTools":null}`); c.ExposeTools != nil || len(c.Warnings) != 0 {
		t.Errorf("expose %#v, warnings %v", c.ExposeTools, c.Warnings)
	}
	// A slip must not open the firewall.
	if c := mustParse(t, `{"hideTools":"secret__*"}`); !slices.Equal(c.HideTools, []string{"secret__*"}) || len(c.Warnings) != 1 {
		t.Errorf("hide %v, warnings %v", c.HideTools, c.Warnings)
	}
}

func TestListenAddresses(t *testing.T) {
	for _, address := range []string{"127.0.0.1:7877", "[::1]:0", "localhost:1", ""} {
		if c := mustParse(t, `{"http":{"listen":"`+address+`"}}`); c.HTTPListen != address || len(c.Warnings) != 0 {
			t.Errorf("%s: listen %q, warnings %v", address, c.HTTPListen, c.Warnings)
		}
	}
}

func TestAuth(t *testing.T) {
	s := valid(t, `{"url":"http://h/","headers":{"authorization":"Basic abcd"},"auth":{"token":"tok-1"}}`)
	if diff := cmp.Diff(map[string]string{"authorization": "Basic abcd"}, s.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	c := mustParse(t, `{"mcpServers":{"x":{"url":"http://h/","auth":{"clientId":"i","clientSecret":"s","type":"oauth2-client"}}}}`)
	if c.Servers[0].Problem != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].Message, "OAuth") {
		t.Errorf("problem %v, warnings %v", c.Servers[0].Problem, c.Warnings)
	}
}

func TestSecondProblemsAreWarnings(t *testing.T) {
	c := mustParse(t, `{"mcpServers":{"x":{"command":"${A}","args":"b","scope":"c"}}}`)
	if c.Servers[0].Problem == nil || len(c.Warnings) != 2 {
		t.Errorf("problem %v, warnings %v", c.Servers[0].Problem, c.Warnings)
	}
}

func TestLoadLaysTheMainFileOverTheBase(t *testing.T) {
	dir := t.TempDir()
	base, main := filepath.Join(dir, "base.json"), filepath.Join(dir, "main.json")
	write(t, base, `{"servers":[{"name":"a","command":"base"},{"name":"b","command":"base","env":{"X":"1"}}],
		"autoReconnect":{"maxAttempts":3,"jitter":0.5},"hideTools":["b*"],"registries":[]}`)
	write(t, main, `{"mcpServers":{"c":{"command":"main"},"b":{"command":"main"}},"reconnect":{"maxAttempts":4}}`)
	o := options()
	o.BasePath = base
	c, err := Load(main, o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range c.Servers {
		got = append(got, s.Name+" "+s.Command+" "+strings.Join(s.Env, ","))
		if s.Reconnect.MaxAttempts != 4 || s.Reconnect.Jitter != 0.5 {
			t.Errorf("%s: reconnect %+v, want the last word on each key", s.Name, s.Reconnect)
		}
	}
	if diff := cmp.Diff([]string{"a base ", "b main ", "c main "}, got); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if c.Path != main || !slices.Equal(c.Files, []string{base, main}) || !slices.Equal(c.HideTools, []string{"b*"}) {
		t.Errorf("path %s, files %v, hide %v", c.Path, c.Files, c.HideTools)
	}
	if len(c.Warnings) != 1 || c.Warnings[0].File != base || c.Warnings[0].Path != "registries" {
		t.Errorf("warnings %v", c.Warnings)
	}
	write(t, base, `{`)
	var parse *ParseError
	if _, err := Load(main, o); !errors.As(err, &parse) || parse.File != base {
		t.Errorf("broken base: %v", err)
	}
}

func TestLoadWithoutFiles(t *testing.T) {
	o := options()
	o.BasePath = filepath.Join(t.TempDir(), "none", "base.json")
	c, err := Load(filepath.Join(t.TempDir(), "none", "c.json"), o)
	if err != nil || len(c.Servers)+len(c.Files)+len(c.Warnings) != 0 || c.Reconnect != defaults().Reconnect {
		t.Errorf("config %+v, %v", c, err)
	}
}

func TestLoadUnreadable(t *testing.T) {
	dir := t.TempDir()
	var parse *ParseError
	if _, err := Load(dir, options()); !errors.As(err, &parse) || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("folder: %v", err)
	}
	path := filepath.Join(dir, "c.json")
	write(t, path, "{}")
	if runtime.GOOS == "windows" || os.Getuid() == 0 {
		t.Skip("modes do not keep this user out")
	}
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, options()); !errors.As(err, &parse) || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("unreadable: %v", err)
	}
}

func TestDefaultPath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("MCP_FUNNEL_CONFIG", "")
	if got := DefaultPath(); got != filepath.Join(dir, "mcp-funnel", "config.json") {
		t.Errorf("DefaultPath() = %s", got)
	}
	t.Setenv("MCP_FUNNEL_CONFIG", "/x/y.json")
	if got := DefaultPath(); got != "/x/y.json" {
		t.Errorf("DefaultPath() = %s", got)
	}
	if got := DefaultBasePath("/h"); got != filepath.FromSlash("/h/.mcp-funnel/.mcp-funnel.json") {
		t.Errorf("DefaultBasePath() = %s", got)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
