package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-funnel/core"
)

// begunTail is a tail of a file with that content, which has printed its last lines.
func begunTail(t *testing.T, content string, lines int) (*tail, *bytes.Buffer) {
	t.Helper()
	out := &bytes.Buffer{}
	log := &tail{path: filepath.Join(t.TempDir(), "server.log"), out: out}
	write(t, log.path, content)
	if err := log.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.close)
	if err := log.begin(lines); err != nil {
		t.Fatal(err)
	}
	return log, out
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func add(t *testing.T, path, content string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(content); err != nil {
		t.Error(err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
}

func TestLastLines(t *testing.T) {
	long := strings.Repeat("x", 40<<10)
	for _, test := range []struct {
		name, content string
		lines         int
		want          string
	}{
		{"nothing there", "", 3, ""},
		{"none wanted", "a\nb\n", 0, ""},
		{"all", "a\nb\n", 2, "a\nb\n"},
		{"more than there are", "a\nb\n", 9, "a\nb\n"},
		{"some", "a\nb\nc\n", 2, "b\nc\n"},
		{"an incomplete one", "a\nb\nc", 2, "b\nc"},
		{"blank ones", "a\n\n\n", 2, "\n\n"},
		{"only a newline", "\n", 1, "\n"},
		{"longer than a chunk", "a\n" + long + "\n" + long + "\n", 2, long + "\n" + long + "\n"},
		{"one longer than a chunk", "a\n" + long + "\n", 1, long + "\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, out := begunTail(t, test.content, test.lines); out.String() != test.want {
				t.Errorf("got %d bytes, want %d", out.Len(), len(test.want))
			}
		})
	}
}

// FuzzLastLines compares with the simple way of doing it.
func FuzzLastLines(f *testing.F) {
	f.Add("a\nb\nc\n", uint8(2), uint16(0))
	f.Add("\n\n", uint8(1), uint16(9000))
	f.Fuzz(func(t *testing.T, text string, lines uint8, repeat uint16) {
		content := strings.Repeat(text, 1+int(repeat)/(1+len(text)))
		start, err := lastLines(strings.NewReader(content), int64(len(content)), int(lines))
		if err != nil {
			t.Fatal(err)
		}
		all := strings.SplitAfter(content, "\n")
		if all[len(all)-1] == "" {
			all = all[:len(all)-1]
		}
		if want := strings.Join(all[max(0, len(all)-int(lines)):], ""); content[start:] != want {
			t.Errorf("the last %d lines of %q are %q, want %q", lines, content, content[start:], want)
		}
	})
}

func TestFollowOverRotation(t *testing.T) {
	log, out := begunTail(t, "before\n", 0)
	see := func(want string) {
		t.Helper()
		if err := log.more(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("shown: %q, want %q", out.String(), want)
		}
		out.Reset()
	}
	see("")
	add(t, log.path, "one\n")
	see("one\n")

	// The end of the old file, then the new one; nothing is lost in between.
	add(t, log.path, "last of the old\n")
	if err := os.Rename(log.path, log.path+".1"); err != nil {
		t.Fatal(err)
	}
	see("last of the old\n")
	write(t, log.path, "first of the new\n")
	see("first of the new\n")

	add(t, log.path, "the end\n")
	if err := os.Rename(log.path, log.path+".2"); err != nil {
		t.Fatal(err)
	}
	write(t, log.path, "the beginning\n")
	see("the end\nthe beginning\n")

	// Cut short.
	write(t, log.path, "anew\n")
	see("anew\n")
}

func TestLoggedServers(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "log"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"github", "my server"} {
		write(t, core.ServerLogPath(dir, name), "")
	}
	write(t, strings.Replace(core.ServerLogPath(dir, "github"), ".log", "-2026-12-01T12-00-00.000.log", 1), "")
	write(t, core.LogPath(dir), "")
	if got := fmt.Sprint(loggedServers(dir)); got != "[github my_server]" {
		t.Errorf("got %s", got)
	}
}
