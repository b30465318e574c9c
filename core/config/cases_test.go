package config

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestC01_VariablesAreExpandedEverywhere(t *testing.T) {
	vars := []string{"API_KEY=k3y-v4lue", "HOST=h.example", "EMPTY="}
	stdio := valid(t, `{"command":"/opt/${API_KEY}/run","args":["-k","${API_KEY}","${NONE:-a b}","${NONE:old}"],
		"env":{"T":"x${API_KEY}y","E":"${EMPTY:-set}","D":"${NONE:-}"},"cwd":"/w/${HOST}","envFile":"/e/${HOST}","watch":["/d/${HOST}"]}`, vars...)
	want := Server{
		Command: "/opt/k3y-v4lue/run", Args: []string{"-k", "k3y-v4lue", "a b", "old"},
		Env: []string{"T=xk3y-v4luey", "E=", "D="}, Cwd: "/w/h.example", EnvFile: "/e/h.example", Watch: []string{"/d/h.example"},
	}
	got := Server{Command: stdio.Command, Args: stdio.Args, Env: stdio.Env, Cwd: stdio.Cwd, EnvFile: stdio.EnvFile, Watch: stdio.Watch}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stdio server (-want +got):\n%s", diff)
	}
	remote := valid(t, `{"url":"https://${HOST}/mcp?k=${API_KEY}","headers":{"X-Api-Key":"${API_KEY}"}}`, vars...)
	if remote.URL != "https://h.example/mcp?k=k3y-v4lue" || remote.Headers["X-Api-Key"] != "k3y-v4lue" {
		t.Errorf("url %q, headers %v", remote.URL, remote.Headers)
	}
	token := valid(t, `{"transport":{"type":"sse","url":"http://${HOST}/"},"auth":{"type":"bearer","token":"${API_KEY}"}}`, vars...)
	if token.Headers["Authorization"] != "Bearer k3y-v4lue" || token.Type != SSE || token.URL != "http://h.example/" {
		t.Errorf("server %+v", token)
	}
}

func TestC01_MissingVariableMakesOnlyThatServerInvalid(t *testing.T) {
	c := mustParse(t, `{"mcpServers": {
  "github": {"command": "npx",
    "env": {"TOKEN": "${GH_TOKEN}"}},
  "ok": {"command": "true"}
}}`)
	bad := c.Servers[0].Problem
	if bad == nil || c.Servers[1].Problem != nil {
		t.Fatalf("problems %v, %v; want only the first", bad, c.Servers[1].Problem)
	}
	const where = "/etc/f/config.json:3:22: mcpServers.github.env.TOKEN: variable GH_TOKEN is not set"
	if !strings.HasPrefix(bad.Error(), where) || bad.String() != bad.Error() {
		t.Errorf("problem %q, want %q...", bad, where)
	}
}

func TestC03_CommentsAndTrailingCommas(t *testing.T) {
	s := valid(t, `{ // note: "quoted"
		/* off: { [ */ "url":"https://h/p//q", "headers": {"X": "/* keep */ // this", }, }`)
	if s.URL != "https://h/p//q" || s.Headers["X"] != "/* keep */ // this" {
		t.Errorf("url %q, headers %v", s.URL, s.Headers)
	}
	for _, text := range []string{"{} // no line break at the end", "// first\n{}\n/* last */"} {
		if _, err := Parse("f", []byte(text), options()); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

const twoServers = "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"a\"},\n    \"b\": {\"url\": \"http://b/\"}\n  }\n}\n"

func TestC05_ByteOrderMarkAndCRLF(t *testing.T) {
	want := mustParse(t, twoServers)
	for name, text := range map[string]string{
		"bom": "\xEF\xBB\xBF" + twoServers, "crlf": strings.ReplaceAll(twoServers, "\n", "\r\n"),
		"both": "\xEF\xBB\xBF" + strings.ReplaceAll(twoServers, "\n", "\r\n"),
	} {
		if diff := cmp.Diff(want, mustParse(t, text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	// Positions are those an editor shows.
	c := mustParse(t, "\xEF\xBB\xBF{\r\n \"é\": 1, \"x\": 2}")
	if w := c.Warnings[1]; w.Line != 2 || w.Column != 10 {
		t.Errorf("second warning at %d:%d, want 2:10", w.Line, w.Column)
	}
}

func TestC05_FailedReadsNeverTouchTheFile(t *testing.T) {
	utf16 := func(order string) []byte {
		out := []byte(order)
		for _, c := range []byte(twoServers) {
			if order == "\xFF\xFE" {
				out = append(out, c, 0)
			} else {
				out = append(out, 0, c)
			}
		}
		return out
	}
	for name, data := range map[string][]byte{
		"utf-16le": utf16("\xFF\xFE"), "utf-16be": utf16("\xFE\xFF"), "utf-16 without mark": utf16("\xFF\xFE")[2:],
		"truncated": []byte(twoServers[:40]), "empty": {}, "blank": []byte(" \n"), "not json": []byte("mcpServers: {}"),
		"latin-1": []byte("{\"a\xE9\": 1}"), "array": []byte("[]"), "two values": []byte("{} {}"),
		"servers no object": []byte(`{"mcpServers": "x"}`), "deep": []byte(strings.Repeat("[", 1<<20)),
		"huge": bytes.Repeat([]byte(" "), maxFileSize+1),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.json")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(path, options())
			var parse *ParseError
			if !errors.As(err, &parse) || parse.File != path {
				t.Fatalf("Load: %v, want a ParseError about %s", err, path)
			}
			after, err := os.ReadFile(path)
			if err != nil || sha256.Sum256(after) != sha256.Sum256(data) {
				t.Errorf("file changed (%v)", err)
			}
			if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
				t.Errorf("folder holds %v, want just the file", entries)
			}
		})
	}
}

func TestC07_TypeIsInferred(t *testing.T) {
	if s := valid(t, `{"url":"http://127.0.0.1:1/mcp"}`); s.Type != HTTP || !s.FallbackSSE {
		t.Errorf("url only: type %s, fall-back %v", s.Type, s.FallbackSSE)
	}
	if s := valid(t, `{"command":"c"}`); s.Type != Stdio || s.FallbackSSE {
		t.Errorf("command only: type %s, fall-back %v", s.Type, s.FallbackSSE)
	}
	for entry, want := range map[string]string{
		`{"url":"http://h/","command":"c"}`: "both command and url",
		`{"args":["a"]}`:                    "missing command or url",
		`{}`:                                "missing command or url",
		`"npx foo"`:                         "must be an object, but is a string",
		`null`:                              "must be an object, but is null",
	} {
		s := only(t, entry)
		if s.Problem == nil || !strings.Contains(s.Problem.Message, want) || s.Problem.Path[:12] != "mcpServers.x" {
			t.Errorf("%s: problem %v, want %q naming the entry", entry, s.Problem, want)
		}
	}
}

func TestC08_Spellings(t *testing.T) {
	for entry, want := range map[string]Type{
		`{"type":"streamable-http","url":"http://h/"}`:                              HTTP,
		`{"type":"streamableHttp","url":"http://h/"}`:                               HTTP,
		`{"type":"http","url":"http://h/"}`:                                         HTTP,
		`{"type":"HTTP","url":"http://h/"}`:                                         HTTP,
		`{"transport":"streamable-http","url":"http://h/"}`:                         HTTP,
		`{"type":"http","httpUrl":"http://h/"}`:                                     HTTP,
		`{"type":"sse","url":"http://h/"}`:                                          SSE,
		`{"type":"STDIO","command":"c"}`:                                            Stdio,
		`{"transport":{"type":"stdio","command":"c","args":["a"],"env":{"A":"1"}}}`: Stdio,
	} {
		if s := valid(t, entry); s.Type != want || s.FallbackSSE {
			t.Errorf("%s: type %s, fall-back %v; want %s", entry, s.Type, s.FallbackSSE, want)
		}
	}
	for _, key := range []string{"httpUrl", "serverUrl"} {
		if s := valid(t, `{"`+key+`":"http://h/"}`); s.Type != HTTP || !s.FallbackSSE || s.URL != "http://h/" {
			t.Errorf("%s: %+v", key, s)
		}
	}
	s := only(t, `{"type":"websocket","url":"http://h/"}`)
	for _, word := range []string{`"websocket"`, "stdio", "http", "streamable-http", "streamableHttp", "sse"} {
		if s.Problem == nil || !strings.Contains(s.Problem.Message, word) {
			t.Errorf("problem %v, want it to name %s", s.Problem, word)
		}
	}
	for entry, want := range map[string]bool{
		`{"command":"c","disabled":true}`: false, `{"command":"c","enabled":false}`: false,
		`{"command":"c","disabled":false}`: true, `{"command":"c"}`: true,
		`{"command":"c","enabled":true,"disabled":true}`: false, `{"command":"c","enabled":false,"disabled":false}`: false,
	} {
		if s := valid(t, entry); s.Enabled != want {
			t.Errorf("%s: enabled %v", entry, s.Enabled)
		}
	}
}

func TestC09_WrongEntriesSayWhatIsWrongAndWhere(t *testing.T) {
	for entry, want := range map[string]string{
		`{"type":"http"}`:                               "2:5: mcpServers.x: missing url (type is http)",
		`{"type":"stdio"}`:                              "2:5: mcpServers.x: missing command (type is stdio)",
		`{"type":"stdio","command":""}`:                 "2:5: mcpServers.x: missing command (type is stdio)",
		`{"command":"c","args":"-y p"}`:                 "2:27: mcpServers.x.args: must be a list of strings, but is a string",
		`{"command":"c","args":["a",["b"]]}`:            "2:32: mcpServers.x.args[1]: must be a string, but is an array",
		`{"command":7}`:                                 "2:16: mcpServers.x.command: must be a string, but is a number",
		`{"command":"c","env":{"A":null}}`:              "2:31: mcpServers.x.env.A: must be a string, but is null",
		`{"command":"c","env":["A=1"]}`:                 "2:26: mcpServers.x.env: must be an object, but is an array",
		`{"command":"c","env":{"a=b":"1"}}`:             `2:27: mcpServers.x.env["a=b"]: not a name for a variable`,
		`{"command":"c","enabled":"yes"}`:               "2:30: mcpServers.x.enabled: must be true or false, but is a string",
		`{"command":"c","scope":"global"}`:              "2:28: mcpServers.x.scope: must be one of shared, project, session",
		`{"command":"c","startupTimeoutMs":0}`:          "2:39: mcpServers.x.startupTimeoutMs: must be whole milliseconds, 1 or more",
		`{"command":"c","timeout":-1}`:                  "2:30: mcpServers.x.timeout: must be seconds, 0 or more",
		`{"command":"c","reconnect":{"jitter":2}}`:      "2:42: mcpServers.x.reconnect.jitter: must be a number from 0 to 1",
		`{"command":"c","reconnect":{"maxDelayMs":9}}`:  "2:46: mcpServers.x.reconnect.maxDelayMs: must be whole milliseconds, 10 or more",
		`{"command":"c","reconnect":true}`:              "2:32: mcpServers.x.reconnect: must be an object, but is true or false",
		`{"url":"ftp://h/"}`:                            "2:12: mcpServers.x.url: not a usable url",
		`{"url":"http://h:x/?token=hush"}`:              "2:12: mcpServers.x.url: not a usable url",
		`{"url":"http://h/","headers":{"a b":"v"}}`:     `2:35: mcpServers.x.headers["a b"]: not a name for a header`,
		`{"url":"http://h/","headers":{"A":"v\nX: y"}}`: "2:39: mcpServers.x.headers.A: a header cannot hold a line break",
		`{"url":"http://h/","auth":{"type":"bearer"}}`:  "2:31: mcpServers.x.auth: missing token",
		`{"command":"c","args":["${A"]}`:                `2:28: mcpServers.x.args[0]: "${" without a closing "}"`,
		`{"command":"c","args":["${1A}"]}`:              `2:28: mcpServers.x.args[0]: "${" must be followed by a variable's name`,
		`{"command":"c","args":["${A:-${B}}"]}`:         `2:28: mcpServers.x.args[0]: the default of variable A holds another "${"`,
		`{"command":"c","cwd":"${NO_SUCH}"}`:            "2:26: mcpServers.x.cwd: variable NO_SUCH is not set",
		`{"command":"${EMPTY}"}`:                        "2:16: mcpServers.x.command: missing command",
		`{"command":"c\u0000"}`:                         "2:16: mcpServers.x.command: holds a NUL character",
		`{"transport":{"type":"http","command":"c"}}`:   "2:5: mcpServers.x: missing url (type is http)",
		`{"transport":["http"],"command":"c"}`:          "2:18: mcpServers.x.transport: must be an object, but is an array",
	} {
		c := mustParse(t, "{\"mcpServers\":{\n\"x\":"+entry+",\n\"fine\":{\"command\":\"c\"}}}", "EMPTY=")
		bad, fine := c.Servers[0].Problem, c.Servers[1]
		if bad == nil || !strings.HasPrefix(bad.Error(), "/etc/f/config.json:"+want) {
			t.Errorf("%s:\n got %v\nwant %s", entry, bad, want)
		}
		if fine.Problem != nil {
			t.Errorf("%s: the other server has %v", entry, fine.Problem)
		}
		if bad != nil && strings.Contains(bad.Error(), "hush") {
			t.Errorf("%s: problem shows a secret: %v", entry, bad)
		}
	}
}

func TestC09_EnvNumbersAndBooleansBecomeStrings(t *testing.T) {
	s := valid(t, `{"command":"c","args":["--port",8080],"env":{"N":12345678901234567890,"F":1.50,"B":true,"S":"s"}}`)
	want := []string{"N=12345678901234567890", "F=1.50", "B=true", "S=s"}
	if diff := cmp.Diff(want, s.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"--port", "8080"}, s.Args); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
}

func TestC11_TildeAndSpaces(t *testing.T) {
	s := valid(t, `{"command":"~/bin/my srv.sh","cwd":"~/srv","args":["~/x","*","$HOME","a b",""],"envFile":"~/e","watch":["~/w"]}`)
	if s.Command != "/home/u/bin/my srv.sh" || s.Cwd != "/home/u/srv" || s.EnvFile != "/home/u/e" || s.Watch[0] != "/home/u/w" {
		t.Errorf("command %q, cwd %q, envFile %q, watch %q", s.Command, s.Cwd, s.EnvFile, s.Watch)
	}
	if diff := cmp.Diff([]string{"~/x", "*", "$HOME", "a b", ""}, s.Args); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
	if s := valid(t, `{"command":"a~/b","cwd":"~"}`); s.Command != "a~/b" || s.Cwd != "/home/u" {
		t.Errorf("command %q, cwd %q", s.Command, s.Cwd)
	}
}

func TestC16_ABrokenFileIsAnErrorWithAPlace(t *testing.T) {
	for text, want := range map[string]string{
		"{\n  \"a\": 1\n  \"b\": 2\n}":      `f:3:3: this string`,
		"{\n  \"mcpServers\": {\n":          "f:3:1: the file ends too early",
		"{\"a\": \"x}\n":                    "f:2:1: the file ends too early",
		"{\"é\": tru}":                      "f:1:7: unexpected 't'",
		"{\"a\": hush-hush}":                "f:1:7: unexpected 'h'",
		"{\"a\": \"hush\\q\"}":              "f:1:7: this string",
		"{\"a\": }":                         "f:1:7: unexpected '}'",
		"":                                  "f: the file is empty",
		"{\"mcpServers\": 7}":               "f:1:16: mcpServers: must be an object with a member for each server",
		"{\"a\":\n \"\xE9\"}":               "f:2:3: not UTF-8",
		strings.Repeat("[", 101):            "f:1:101: nested deeper than 100 levels",
		"/* [[" + strings.Repeat("[", 101):  "f:1:1: the file ends too early",
		`{"a":"` + strings.Repeat("[", 101): "f:1:108: the file ends too early",
	} {
		_, err := Parse("f", []byte(text), options())
		var parse *ParseError
		if !errors.As(err, &parse) || !strings.HasPrefix(parse.Issue.Error(), want) {
			t.Errorf("%.40q:\n got %v\nwant %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("the error quotes the file: %v", err)
		}
	}
}

func TestDefaults(t *testing.T) {
	c := mustParse(t, `{"servers":{"x":{"command":"c"}}}`)
	s := c.Servers[0]
	if s.StartupTimeout != 2*time.Minute || s.CallTimeout != 0 || s.Prefix != "x" || s.Scope != Shared || s.Cwd != "/home/u" || !s.Enabled {
		t.Errorf("server %+v", s)
	}
	want := Reconnect{true, 10, time.Second, time.Minute, time.Minute, time.Minute, 2, 0.25}
	if c.Reconnect != want || s.Reconnect != want {
		t.Errorf("reconnect %+v and %+v", c.Reconnect, s.Reconnect)
	}
	if c.ExposeTools != nil || !c.Notifications.Enabled || c.Notifications.After != 10*time.Second || c.Notifications.QuietAfterStart != 30*time.Second {
		t.Errorf("config %+v", c)
	}
}

func TestC69_AStartMayTakeTwoMinutes(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`{"command":"c"}`:                           120 * time.Second,
		`{"command":"c","startupTimeoutMs":null}`:   120 * time.Second,
		`{"command":"c","startupTimeoutMs":600000}`: 10 * time.Minute,
		`{"url":"https://h/mcp"}`:                   120 * time.Second,
	} {
		if got := valid(t, text).StartupTimeout; got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
