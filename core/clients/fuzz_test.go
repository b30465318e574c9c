package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"
)

// FuzzConnect: whatever the file holds, connecting keeps all its bytes, leaves valid
// JSON, and disconnecting puts back the very file. What cannot be understood is left
// alone.
func FuzzConnect(f *testing.F) {
	for _, seed := range []string{
		"", " \n", "{}", "{ }", "{\n}", `{"a":1}`, `{"mcpServers":{}}`, "{\n\t\"mcpServers\" : {\r\n } , \"z\":[1e999]\n}\n",
		`{"mcpServers":{"a":{"command":"x"}}}`, "{\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}", `{"mcpServers":{"funnel":{}}}`,
		`{"mcpServers":{"funnel":{"command":"mcp-funnel","args":["bridge"]}}}`, `{"mcpS\u0065rvers":{"\u0061":1}}`,
		byteOrderMark, byteOrderMark + "{}", "{\"a\":\"\xff\"}", `{"mcpServers":null}`, "[]", "{,}", "{\"a\"\r:1,\r\"b\":2}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, before []byte) {
		b := newBed(t, string(before))
		change, err := b.connect("funnel", here)
		after := []byte(b.text())
		if err != nil {
			_, syntax := errors.AsType[*SyntaxError](err)
			_, foreign := errors.AsType[*ForeignError](err)
			if !syntax && !foreign || !bytes.Equal(after, before) {
				t.Fatalf("%v; %q became %q", err, before, after)
			}
			return
		}
		if !json.Valid(bytes.TrimPrefix(after, []byte(byteOrderMark))) {
			t.Fatalf("%q became %q", before, after)
		}
		if change.Kind != Added {
			return // an entry of ours was there: see FuzzUpdate
		}
		if again, err := b.connect("funnel", here); err != nil || again.Kind != Unchanged {
			t.Fatalf("again: %v, %v; %q", again.Kind, err, after)
		}
		if !keeps(before, after) {
			t.Fatalf("bytes of %q are lost in %q", before, after)
		}
		withoutNote(t, b, before, after)
		b.write(string(after))
		if change, err := b.disconnect("funnel"); err != nil || change.Kind != Removed {
			t.Fatalf("disconnecting: %v, %v", change.Kind, err)
		}
		if got := b.text(); got != string(before) {
			t.Fatalf("%q became %q and then %q", before, after, got)
		}
	})
}

// keeps reports whether after is before with something put in at one place, and
// nothing but white space taken out there.
func keeps(before, after []byte) bool {
	head := 0
	for head < len(before) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < len(before)-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	return len(bytes.Trim(before[head:len(before)-tail], " \t\r\n")) == 0
}

// withoutNote disconnects by the file alone: what is left differs from before in
// nothing but an empty object of servers and white space.
func withoutNote(t *testing.T, b *bed, before, after []byte) {
	t.Helper()
	notes, err := os.ReadFile(b.client.notes.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(b.client.notes.path); err != nil {
		t.Fatal(err)
	}
	if change, err := b.disconnect("funnel"); err != nil || change.Kind != Removed {
		t.Fatalf("disconnecting without a note: %v, %v", change.Kind, err)
	}
	if got := []byte(b.text()); !keeps(before, got) || !json.Valid(bytes.TrimPrefix(got, []byte(byteOrderMark))) {
		t.Fatalf("without a note %q became %q and then %q", before, after, got)
	}
	if err := os.WriteFile(b.client.notes.path, notes, 0o600); err != nil {
		t.Fatal(err)
	}
}

// FuzzUpdate: an entry that is ours is mended, whatever else the user wrote into it,
// and an entry that is not is left alone.
func FuzzUpdate(f *testing.F) {
	for _, seed := range []string{
		`{"command":"mcp-funnel","args":["bridge"]}`, `{"args":["bridge","--name","x"],"command":"mcp-funnel","env":{}}`,
		`{"type":"stdio","command":"\u006dcp-funnel","args":["bridge","--name=funnel"]}`, `{"command":"node"}`, `[]`,
		`{"command":"mcp-funnel","command":"x","args":["bridge"]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		if !json.Valid([]byte(entry)) {
			return
		}
		text := "{\"x\":1e999,\"mcpServers\":{\"a\":1,\"funnel\":" + entry + ",\"b\":2}}"
		b := newBed(t, text)
		change, err := b.connect("funnel", here)
		after := b.text()
		if err != nil || change.Kind == Unchanged {
			if after != text {
				t.Fatalf("%v; %q became %q", err, text, after)
			}
			return
		}
		var was, is map[string]map[string]json.RawMessage
		if err := errors.Join(decodeServers(text, &was), decodeServers(after, &is)); err != nil {
			t.Fatal(err)
		}
		if len(was["funnel"]) != len(is["funnel"]) {
			t.Fatalf("%q became %q", text, after)
		}
		if again, err := b.connect("funnel", here); err != nil || again.Kind != Unchanged {
			t.Fatalf("again: %v, %v; %q", again.Kind, err, after)
		}
	})
}

// decodeServers reads the members of the entry "funnel".
func decodeServers(text string, into *map[string]map[string]json.RawMessage) error {
	var file struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		return err
	}
	var entry map[string]json.RawMessage
	err := json.Unmarshal(file.Servers["funnel"], &entry)
	*into = map[string]map[string]json.RawMessage{"funnel": entry}
	return err
}
