package clients

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const here = "/opt/bin/mcp-funnel"

// bed is a private home with Claude Code's file.
type bed struct {
	t      *testing.T
	o      Options
	client *Client
	file   string
}

// newBed puts text into the file; without text there is no file.
func newBed(t *testing.T, text ...string) *bed {
	t.Helper()
	b := &bed{t: t, o: Options{
		Home:     t.TempDir(),
		StateDir: filepath.Join(t.TempDir(), "state"),
		Getenv:   func(string) string { return "" },
		LookPath: func(string) (string, error) { return "", exec.ErrNotFound },
	}}
	b.file = filepath.Join(b.o.Home, ".claude.json")
	if len(text) > 0 {
		b.write(text[0])
	}
	b.find()
	return b
}

func (b *bed) find() {
	b.t.Helper()
	client, err := Find(ClaudeCode, b.o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.client = client
}

func (b *bed) write(text string) {
	b.t.Helper()
	if err := os.WriteFile(b.file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) text() string {
	b.t.Helper()
	text, err := os.ReadFile(b.file)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

func agreed(Change) error { return nil }

func (b *bed) connect(name, command string) (Change, error) {
	return b.client.Connect(context.Background(), BridgeEntry(name, command), agreed)
}

func (b *bed) disconnect(name string) (Change, error) {
	return b.client.Disconnect(context.Background(), name, here, agreed)
}

// did fails the test unless a change of that kind came out.
func (b *bed) did(want Kind, change Change, err error) {
	b.t.Helper()
	if err != nil || change.Kind != want {
		b.t.Fatalf("kind %v, error %v; want kind %v", change.Kind, err, want)
	}
}

func TestConnectLooksLikeTheRestOfTheFile(t *testing.T) {
	entry := `"funnel":{"type":"stdio","command":"/opt/bin/mcp-funnel","args":["bridge"]}`
	spaced := `"funnel": {"type": "stdio", "command": "/opt/bin/mcp-funnel", "args": ["bridge"]}`
	for name, tc := range map[string]struct{ before, after string }{
		"other servers": {
			"{\n  \"mcpServers\": {\n    \"a\": {}\n  },\n  \"big\": 12345678901234567890.10\n}\n",
			"{\n  \"mcpServers\": {\n    \"a\": {},\n    \"funnel\": {\n      \"type\": \"stdio\",\n      \"command\": \"/opt/bin/mcp-funnel\",\n" +
				"      \"args\": [\n        \"bridge\"\n      ]\n    }\n  },\n  \"big\": 12345678901234567890.10\n}\n",
		},
		"no servers": {
			"{\r\n\t\"a\": 1\r\n}",
			"{\r\n\t\"a\": 1,\r\n\t\"mcpServers\": {\r\n\t\t\"funnel\": {\r\n\t\t\t\"type\": \"stdio\",\r\n\t\t\t\"command\": \"/opt/bin/mcp-funnel\",\r\n" +
				"\t\t\t\"args\": [\r\n\t\t\t\t\"bridge\"\r\n\t\t\t]\r\n\t\t}\r\n\t}\r\n}",
		},
		"empty servers": {
			"{\n  \"mcpServers\": {\n\n  }\n}",
			"{\n  \"mcpServers\": {\n    \"funnel\": {\n      \"type\": \"stdio\",\n      \"command\": \"/opt/bin/mcp-funnel\",\n" +
				"      \"args\": [\n        \"bridge\"\n      ]\n    }\n  }\n}",
		},
		"one line":        {`{"mcpServers":{"a":{}}}`, `{"mcpServers":{"a":{},` + entry + `}}`},
		"one line, empty": {`{"x":1,"mcpServers": {}}`, `{"x":1,"mcpServers": {` + entry + `}}`},
		"one line, none":  {`{"x":1}`, `{"x":1,"mcpServers":{` + entry + `}}`},
		"spaces":          {`{"x": 1, "y": 2}`, `{"x": 1, "y": 2, "mcpServers": {` + spaced + `}}`},
		"byte order mark": {byteOrderMark + `{"x":1}`, byteOrderMark + `{"x":1,"mcpServers":{` + entry + `}}`},
		"no member": {
			`{}`,
			"{\n  \"mcpServers\": {\n    \"funnel\": {\n      \"type\": \"stdio\",\n      \"command\": \"/opt/bin/mcp-funnel\",\n" +
				"      \"args\": [\n        \"bridge\"\n      ]\n    }\n  }\n}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, tc.before)
			change, err := b.connect("funnel", here)
			b.did(Added, change, err)
			if diff := cmp.Diff(tc.after, b.text()); diff != "" {
				t.Errorf("connected (-want +got):\n%s", diff)
			}
			change, err = b.connect("funnel", here)
			b.did(Unchanged, change, err)
			change, err = b.disconnect("funnel")
			b.did(Removed, change, err)
			if diff := cmp.Diff(tc.before, b.text()); diff != "" {
				t.Errorf("disconnected (-want +got):\n%s", diff)
			}
			change, err = b.disconnect("funnel")
			b.did(Unchanged, change, err)
		})
	}
}

func TestMissingFileIsCreatedForTheUserAlone(t *testing.T) {
	b := newBed(t)
	dir := filepath.Join(b.o.Home, "not", "there")
	b.o.Getenv = func(name string) string { return map[string]string{"CLAUDE_CONFIG_DIR": dir}[name] }
	b.file = filepath.Join(dir, ".claude.json")
	b.find()
	change, err := b.disconnect("funnel")
	b.did(Unchanged, change, err)
	change, err = b.connect("funnel", here)
	b.did(Added, change, err)
	info, err := os.Stat(b.file)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	change, err = b.disconnect("funnel")
	b.did(Removed, change, err)
	if _, err := os.Stat(b.file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file that connecting created is still there: %v", err)
	}
}

func TestBlankFileIsLikeNone(t *testing.T) {
	b := newBed(t, " \n")
	change, err := b.connect("funnel", here)
	b.did(Added, change, err)
	change, err = b.disconnect("funnel")
	b.did(Removed, change, err)
	if got := b.text(); got != " \n" {
		t.Errorf("%q", got)
	}
}

func TestOldPlaceOfTheFileStillCounts(t *testing.T) {
	b := newBed(t, `{}`)
	b.file = filepath.Join(b.o.Home, ".claude", ".config.json")
	if err := os.Mkdir(filepath.Dir(b.file), 0o700); err != nil {
		t.Fatal(err)
	}
	b.write(`{}`)
	b.find()
	change, err := b.connect("funnel", here)
	b.did(Added, change, err)
	if !strings.Contains(b.text(), here) {
		t.Errorf("%s", b.text())
	}
}

// When the client has written its file since, only the entry goes.
func TestDisconnectAfterOthersWrote(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"alone": {`{"n":2,"mcpServers":{"funnel":{"command":"mcp-funnel","args":["bridge"]}}}`, `{"n":2,"mcpServers":{}}`},
		"first": {`{"mcpServers":{ "funnel":{"command":"mcp-funnel","args":["bridge"]}, "b":{} }}`, `{"mcpServers":{ "b":{} }}`},
		"between": {
			`{"mcpServers":{"a":{},"funnel":{"command":"mcp-funnel","args":["bridge"]} ,"b":{}}}`, `{"mcpServers":{"a":{} ,"b":{}}}`,
		},
		"last": {`{"mcpServers":{"a":{} , "funnel":{"command":"mcp-funnel","args":["bridge"]}}}`, `{"mcpServers":{"a":{}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, `{"n":1}`)
			change, err := b.connect("funnel", here)
			b.did(Added, change, err)
			b.write(tc.text)
			change, err = b.disconnect("funnel")
			b.did(Removed, change, err)
			if diff := cmp.Diff(tc.want, b.text()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A note that says something else than the file is not believed.
func TestUnfitNoteIsNotUsed(t *testing.T) {
	b := newBed(t, `{"a":1}`)
	change, err := b.connect("funnel", here)
	b.did(Added, change, err)
	notes := filepath.Join(b.o.StateDir, "connect.json")
	if err := os.WriteFile(notes, []byte(`{"inserted": "what`), 0o600); err != nil {
		t.Fatal(err)
	}
	change, err = b.disconnect("funnel")
	b.did(Removed, change, err)
	if got := b.text(); got != `{"a":1,"mcpServers":{}}` {
		t.Error(got)
	}
}

func TestStalePathIsUpdated(t *testing.T) {
	b := newBed(t, `{"mcpServers":{ }}`) // the space is only in the note
	change, err := b.connect("funnel", "/old/"+program)
	b.did(Added, change, err)
	change, err = b.connect("funnel", here)
	b.did(Updated, change, err)
	if strings.Contains(b.text(), "/old/") || change.Before == change.After {
		t.Errorf("%s\n%+v", b.text(), change)
	}
	change, err = b.connect("funnel", here)
	b.did(Unchanged, change, err)
	change, err = b.disconnect("funnel")
	b.did(Removed, change, err)
	if got := b.text(); got != `{"mcpServers":{ }}` {
		t.Errorf("after an update disconnecting left %s", got)
	}
}

// An update keeps what the user put into the entry, and shows no value of it.
func TestUpdateKeepsTheRestOfTheEntry(t *testing.T) {
	b := newBed(t, `{"mcpServers":{"tools":{ "args" :["bridge","--no-start"],"env":{"TOKEN":"hush-hush"},"command":"mcp-funnel","x":1e999}}}`)
	var shown Change
	change, err := b.client.Connect(t.Context(), BridgeEntry("tools", here), func(c Change) error { shown = c; return nil })
	b.did(Updated, change, err)
	want := `{"mcpServers":{"tools":{ "args" :["bridge", "--name", "tools"],"env":{"TOKEN":"hush-hush"},"command":"/opt/bin/mcp-funnel","x":1e999}}}`
	if diff := cmp.Diff(want, b.text()); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(shown.Before+shown.After, "hush") {
		t.Errorf("%+v", shown)
	}
}

func TestArgumentsOfTheUserAreFine(t *testing.T) {
	text := `{"mcpServers":{"funnel":{"type":"stdio","command":"/opt/bin/mcp-funnel","args":["bridge","--no-start"],"env":{}}}}`
	b := newBed(t, text)
	change, err := b.connect("funnel", here)
	b.did(Unchanged, change, err)
	if b.text() != text {
		t.Error(b.text())
	}
}

func TestModeAndLinksAreKept(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes and links are those of Unix")
	}
	b := newBed(t)
	target := filepath.Join(b.o.Home, "dotfiles", "claude.json")
	if err := os.Mkdir(filepath.Dir(target), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(target, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("dotfiles/claude.json", b.file); err != nil {
		t.Fatal(err)
	}
	change, err := b.connect("funnel", here)
	b.did(Added, change, err)
	if link, err := os.Readlink(b.file); err != nil || link != "dotfiles/claude.json" {
		t.Errorf("the link became %q, %v", link, err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o640 || info.Size() < 10 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestTwoNames(t *testing.T) {
	b := newBed(t, `{}`)
	for _, name := range []string{"funnel", "tools"} {
		change, err := b.connect(name, here)
		b.did(Added, change, err)
	}
	if !strings.Contains(b.text(), `"--name"`) {
		t.Error(b.text())
	}
	for _, name := range []string{"tools", "funnel"} {
		change, err := b.disconnect(name)
		b.did(Removed, change, err)
	}
	if got := b.text(); got != `{}` {
		t.Error(got)
	}
}

func TestUnknownClient(t *testing.T) {
	_, err := Find("emacs", Options{})
	if _, ok := errors.AsType[*UnknownError](err); !ok || !strings.Contains(err.Error(), ClaudeCode) {
		t.Error(err)
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"funnel": true, "a-b_C9": true, "": false, "-x": false, "a b": false, "a.b": false, "é": false,
		strings.Repeat("a", 64): true, strings.Repeat("a", 65): false,
	} {
		if got := ValidName(name); got != want {
			t.Errorf("ValidName(%q) = %v", name, got)
		}
	}
}

func TestNamesOfTheProgram(t *testing.T) {
	for command, want := range map[string]bool{
		"mcp-funnel": true, "/x/mcp-funnel": true, "/x/MCP-Funnel.exe": true, "/x/mcp-funnel-1.2-x86_64.AppImage": true,
		"/x/funnel-dev": true, "/x/mcp-funnel-other": false, "node": false, "": false,
	} {
		w := written{command: command, args: []string{bridge}}
		if got := w.runsBridge("/y/funnel-dev"); got != want {
			t.Errorf("%q: %v", command, got)
		}
	}
}

func TestArgumentsOfTheEntry(t *testing.T) {
	if got := BridgeEntry("funnel", here).Args; !slices.Equal(got, []string{"bridge"}) {
		t.Error(got)
	}
	if got := BridgeEntry("x", here).Args; !slices.Equal(got, []string{"bridge", "--name", "x"}) {
		t.Error(got)
	}
}
