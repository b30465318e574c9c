package clients

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The user's files are written only on the user's command, atomically, keeping what we
// do not understand.

func TestInvariant9_OtherEntriesAreRefused(t *testing.T) {
	for _, entry := range []string{
		`{"command":"npx","args":["bridge"]}`,
		`{"command":"mcp-funnel","args":["serve"]}`,
		`{"command":"mcp-funnel"}`,
		`{"type":"http","command":"mcp-funnel","args":["bridge"]}`,
		`{"type":"http","url":"http://hush-hush"}`,
		`{"command":["mcp-funnel"],"args":["bridge"]}`,
		`{"command":"mcp-funnel","args":["bridge",1]}`,
		`{"Command":"mcp-funnel","args":["bridge"]}`,
		`null`, `"mcp-funnel bridge"`,
	} {
		text := "{\"mcpServers\":{\n\"funnel\":" + entry + "}}"
		b := newBed(t, text)
		_, err := b.connect("funnel", here)
		_, err2 := b.disconnect("funnel")
		for _, err := range []error{err, err2} {
			foreign, ok := errors.AsType[*ForeignError](err)
			if !ok || foreign.Line != 2 || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s: %v", entry, err)
			}
		}
		if b.text() != text {
			t.Errorf("%s became %s", text, b.text())
		}
	}
}

func TestInvariant9_BrokenFilesAreLeftAlone(t *testing.T) {
	for text, place := range map[string]string{
		"{\n  \"a\": 1,\n}":            "3:1",
		"{\n  // comment\n}":           "2:3",
		"{\"a\":\n \"hush":             "2:6",
		"[]":                           "1:1",
		"{} x":                         "1:4",
		"{\"é\":1, \"mcpServers\":[]}": "1:22",
		"{\"mcpServers\":null}":        "1:15",
		"{\"mcpServers\":{},\n\"mcpServers\":{}}":          "2:1",
		"{\"mcpServers\":{\"funnel\":{},\n\"funnel\":{}}}": "2:1",
		byteOrderMark + "{,}":                              "1:2",
	} {
		b := newBed(t, text)
		_, err := b.connect("funnel", here)
		_, err2 := b.disconnect("funnel")
		for _, err := range []error{err, err2} {
			if _, ok := errors.AsType[*SyntaxError](err); !ok || !strings.Contains(err.Error(), ":"+place+": ") || strings.Contains(err.Error(), "hush") {
				t.Errorf("%q: %v; want it at %s", text, err, place)
			}
		}
		if b.text() != text {
			t.Errorf("%q became %q", text, b.text())
		}
	}
}

func TestInvariant9_UnreadableFileIsLeftAlone(t *testing.T) {
	b := newBed(t)
	if err := os.Mkdir(b.file, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := b.connect("funnel", here); err == nil {
		t.Error("a folder was taken for a file")
	}
	if runtime.GOOS == "windows" {
		return
	}
	b = newBed(t)
	if err := os.Symlink("nowhere", b.file); err != nil {
		t.Fatal(err)
	}
	if _, err := b.connect("funnel", here); err == nil {
		t.Error("a link to nothing was replaced")
	}
}

func TestInvariant9_NothingWithoutConsent(t *testing.T) {
	b := newBed(t, `{}`)
	no := errors.New("no")
	var asked []Change
	_, err := b.client.Connect(t.Context(), BridgeEntry("funnel", here), func(c Change) error { asked = append(asked, c); return no })
	if !errors.Is(err, no) || b.text() != `{}` {
		t.Errorf("%v, %s", err, b.text())
	}
	want := []Change{{
		Kind: Added, File: b.client.realFile(t),
		After: `"funnel": {"command": "/opt/bin/mcp-funnel", "args": ["bridge"]}`,
	}}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(b.o.StateDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was noted: %v", err)
	}
}

// realFile is the client's file with links followed.
func (c *Client) realFile(t *testing.T) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(c.file)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

// What the client writes while the user thinks is neither lost nor gone over.
func TestInvariant9_ChangeWhileAsking(t *testing.T) {
	b := newBed(t, `{"n":1}`)
	change, err := b.client.Connect(t.Context(), BridgeEntry("funnel", here), func(Change) error {
		b.write(`{"n":2}`)
		return nil
	})
	b.did(Added, change, err)
	if !strings.HasPrefix(b.text(), `{"n":2,`) {
		t.Error(b.text())
	}

	text := `{"mcpServers":{"funnel":{"command":"mcp-funnel","args":["bridge"]}}}`
	b = newBed(t, `{"n":1}`)
	_, err = b.client.Connect(t.Context(), BridgeEntry("funnel", here), func(Change) error {
		b.write(text)
		return nil
	})
	if err == nil || b.text() != text {
		t.Errorf("what was not agreed to was done: %v, %s", err, b.text())
	}
}

// A change between reading and replacing makes it start over.
func TestInvariant9_ChangeBetweenReadingAndReplacing(t *testing.T) {
	b := newBed(t, `{"n":1}`)
	planned := 0
	plan := func() (step, error) {
		s, err := b.client.planConnect(BridgeEntry("funnel", here))
		if planned++; planned == 2 {
			b.write(`{"n":2}`)
		}
		return s, err
	}
	change, err := b.client.carryOut(t.Context(), agreed, plan)
	b.did(Added, change, err)
	if !strings.HasPrefix(b.text(), `{"n":2,`) || planned != 3 {
		t.Errorf("planned %d times: %s", planned, b.text())
	}
	change, err = b.disconnect("funnel")
	b.did(Removed, change, err)
	if b.text() != `{"n":2}` {
		t.Error(b.text())
	}

	// One that never rests is given up on, and nothing is left lying about.
	restless := func() (step, error) {
		s, err := b.client.planConnect(BridgeEntry("funnel", here))
		b.write(b.text() + " ")
		return s, err
	}
	if _, err := b.client.carryOut(t.Context(), agreed, restless); !errors.Is(err, errChanged) {
		t.Errorf("%v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(b.o.Home, ".*.tmp")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}
