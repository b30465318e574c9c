package jsonrpc

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func BenchmarkParseSmall(b *testing.B) {
	line := []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"github__get_issue","arguments":{"number":42},"_meta":{"progressToken":17}}}`)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(line); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse1MB(b *testing.B) {
	var list bytes.Buffer
	list.WriteString(`{"jsonrpc":"2.0","id":1,"result":{"content":[`)
	for list.Len() < 1<<20 {
		fmt.Fprintf(&list, `{"type":"text","text":"line %d with \"quotes\" and more words","annotations":{"priority":0.5}},`, list.Len())
	}
	list.WriteString(`{}]}}`)
	for name, line := range map[string][]byte{
		"tokens": list.Bytes(),
		"text":   []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("words and words ", 1<<16) + `"}]}}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	m := mustParse(b, `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"github__get_issue","arguments":{"number":42},"_meta":{"progressToken":17}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := Lookup(m.Raw, m.Params, "_meta", "progressToken"); !ok {
			b.Fatal("not found")
		}
	}
}

func BenchmarkReader(b *testing.B) {
	for _, size := range []int{150, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			line := append(bytes.Repeat([]byte("x"), size-1), '\n')
			r := NewReader(&endless{line: line}, 0)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if got, err := r.Read(); err != nil || len(got) != size-1 {
					b.Fatalf("%d bytes, %v", len(got), err)
				}
			}
		})
	}
}

// endless repeats a line for ever.
type endless struct {
	line []byte
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.line[e.at:])
	e.at = (e.at + n) % len(e.line)
	return n, nil
}

func BenchmarkWriter(b *testing.B) {
	w := NewWriter(1<<20, nil)
	done := make(chan error, 1)
	go func() { done <- w.Run(discard{}, 0) }()
	line := bytes.Repeat([]byte("x"), 150)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		for w.Write(slices.Clip(line)) != nil { // a full queue
		}
	}
	w.Close()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
