package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestReaderLendsItsLines(t *testing.T) {
	r := NewReader(strings.NewReader("first\n"+strings.Repeat("x", 3*readBuffer)+"\nlast"), 0)
	first, err := r.Next()
	if err != nil || string(first) != "first" || r.Cut() {
		t.Fatalf("%q, cut %v, %v", first, r.Cut(), err)
	}
	// The newline of a frame fits behind it and disturbs nothing.
	if &append(first, '\n')[0] != &first[0] {
		t.Error("there is no room behind the line")
	}
	if long, err := r.Next(); err != nil || len(long) != 3*readBuffer || r.Cut() {
		t.Fatalf("%d bytes, cut %v, %v", len(long), r.Cut(), err)
	}
	if last, err := r.Next(); err != nil || string(last) != "last" || !r.Cut() {
		t.Errorf("%q, cut %v, %v", last, r.Cut(), err)
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) || r.Cut() {
		t.Errorf("%v, cut %v; want EOF", err, r.Cut())
	}
}

func TestReaderGivesALargeBufferBack(t *testing.T) {
	huge, long := strings.Repeat("x", 2*mostKept), strings.Repeat("x", 2*readBuffer)
	tests := []struct {
		line string
		most int // size of the buffer while it waits for the next line
	}{{"short", readBuffer}, {huge, readBuffer}, {long, 4 * readBuffer}, {long, 4 * readBuffer}, {"short", readBuffer}}
	var stream []io.Reader
	waits := make([]int, 0, len(tests))
	var r *Reader
	for _, test := range tests {
		stream = append(stream, strings.NewReader(test.line+"\n"), noteFunc(func() { waits = append(waits, len(r.buffer)) }))
	}
	r = NewReader(io.MultiReader(stream...), 0)
	for _, test := range tests {
		if line, err := r.Next(); err != nil || string(line) != test.line {
			t.Fatalf("%.20q, %v; want %.20q", line, err, test.line)
		}
	}
	_, _ = r.Next() // the end
	for i, test := range tests {
		if waits[i] > test.most {
			t.Errorf("after a line of %d bytes it waits with a buffer of %d", len(test.line), waits[i])
		}
	}
}

// noteFunc is called when everything before it in a stream was read and more is wanted.
type noteFunc func()

func (f noteFunc) Read([]byte) (int, error) { f(); return 0, io.EOF }

// A reader that says there is more must be able to give it without waiting.
func TestReaderKnowsWhetherThereIsMore(t *testing.T) {
	tests := map[string]bool{"": false, "half": false, "\n": false, " \r\n\n": false, "whole\n": true, "\n\nwhole\nhalf": true, "\nhalf": false}
	for rest, want := range tests {
		ours, theirs := io.Pipe()
		go func() { _, _ = io.WriteString(theirs, "first\n"+rest) }()
		r := NewReader(ours, 0)
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if got := r.More(); got != want {
			t.Errorf("%q: %v, want %v", rest, got, want)
		}
		_ = ours.Close()
	}
}

func FuzzReplyID(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		id, replies := ReplyID(line) // never fails on anything
		m, err := Parse(line)
		if err != nil || m.Method.Present() && (m.Result.Present() || m.Error.Present()) {
			return
		}
		if want := m.Kind == Response; replies != want || replies && !bytes.Equal(id, m.ID.Of(m.Raw)) {
			t.Fatalf("%q: %q, %v; it is of kind %d", line, id, replies, m.Kind)
		}
	})
}

func FuzzRewrite(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed), []byte(`"a longer one"`), []byte(`0`))
	}
	f.Fuzz(func(t *testing.T, line, id, name []byte) {
		m, err := Parse(line)
		if err != nil || !m.ID.Present() || !json.Valid(id) || !json.Valid(name) {
			return
		}
		at, _ := LookupBoth(m.Raw, m.Params, "name", "_meta")
		edits := []Edit{{m.ID, id}}
		switch {
		case !at.Present():
		case at.Start < m.ID.Start:
			edits = []Edit{{at, name}, {m.ID, id}}
		default:
			edits = append(edits, Edit{at, name})
		}
		got := Rewrite(m, edits...)
		want, err := Parse(got.Raw)
		if err != nil || len(want.Raw) != len(got.Raw) {
			return // what was put in is no id
		}
		for _, member := range [][2]Span{{got.ID, want.ID}, {got.Method, want.Method}, {got.Params, want.Params}, {got.Result, want.Result}, {got.Error, want.Error}} {
			if !bytes.Equal(bytes.TrimSpace(member[0].Of(got.Raw)), member[1].Of(got.Raw)) && got.Kind == want.Kind {
				t.Fatalf("%q with %q and %q: %+v, parsed %+v", line, id, name, got, want)
			}
		}
	})
}

func TestLookupBothIsLookupTwice(t *testing.T) {
	for _, params := range []string{
		`{"name":"x","_meta":{"a":1}}`, `{"_meta":1,"name":2}`, `{"name":1,"name":2,"_meta":3}`, `{"_meta":1,"_meta":2,"_meta":3}`,
		`{"n\u0061me":1}`, `{}`, `[]`, `7`, `{"arguments":{"name":1,"_meta":2}}`,
	} {
		m := mustParse(t, `{"method":"x","params":`+params+`}`)
		first, second := LookupBoth(m.Raw, m.Params, "name", "_meta")
		if want, _ := Lookup(m.Raw, m.Params, "name"); first != want {
			t.Errorf("%s: name at %v, want %v", params, first, want)
		}
		if want, _ := Lookup(m.Raw, m.Params, "_meta"); second != want {
			t.Errorf("%s: _meta at %v, want %v", params, second, want)
		}
	}
}

func TestBatchGathersSmallLines(t *testing.T) {
	dst, big := &writes{}, strings.Repeat("b", gatherSize)
	var b Batch
	for _, line := range []string{"a", "b", big, "c"} {
		if err := b.Add(dst, []byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second has nothing to write
		if err := b.Flush(dst); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"a\nb\n", big + "\n", "c\n"}; fmt.Sprint(dst.all) != fmt.Sprint(want) || len(dst.all) != len(want) {
		t.Errorf("%d writes, want %d", len(dst.all), len(want))
	}
}

// pipe is a writer that runs into a real pipe.
func pipe(t *testing.T, limit int, burst *Burst) (w *Writer, r *os.File, end func()) {
	t.Helper()
	r, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w = NewWriter(limit, burst)
	done := make(chan error, 1)
	go func() { done <- w.Run(to, 0) }()
	for offered := false; !offered; { // until Run has begun
		w.mu.Lock()
		offered = w.offer != nil || newOffer(to) == nil
		w.mu.Unlock()
	}
	return w, r, func() {
		w.Close()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		_ = to.Close()
	}
}

func TestInvariant6_WriterWaitsForNobodyWhoDoesNotRead(t *testing.T) {
	const line = 10_000
	w, r, end := pipe(t, 1<<20, nil)
	sent := 0
	for {
		err := w.Write(bytes.Repeat([]byte{'a' + byte(sent%26)}, line))
		if errors.Is(err, ErrBacklog) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sent++
	}
	if sent*line < 1<<20 {
		t.Errorf("%d bytes were too much", sent*line)
	}
	go end()
	reader := NewReader(r, 0)
	for i := range sent { // nothing is lost, and nothing out of order
		got, err := reader.Next()
		if err != nil || len(got) != line || got[0] != 'a'+byte(i%26) || got[line-1] != got[0] {
			t.Fatalf("line %d: %d bytes of %.1q, %v", i, len(got), got, err)
		}
	}
	if _, err := reader.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestWriterLosesNothingInAPipe(t *testing.T) {
	const writers, each = 8, 2000
	burst := new(Burst)
	w, r, end := pipe(t, 64<<20, burst)
	var sending sync.WaitGroup
	for n := range writers {
		sending.Go(func() {
			for i := range each {
				if n == 0 && i%10 == 0 {
					burst.Begin()
				}
				line := fmt.Appendf(nil, "%d %d %s", n, i, strings.Repeat("x", i%500))
				if i%200 == 0 {
					line = append(line, bytes.Repeat([]byte("y"), 100_000)...)
				}
				if err := w.Write(line); err != nil {
					t.Errorf("Write: %v", err)
				}
				if n == 0 && i%10 == 9 {
					burst.End()
				}
			}
		})
	}
	go func() { sending.Wait(); end() }()
	var next [writers]int
	for reader := NewReader(r, 0); ; {
		line, err := reader.Next()
		if err != nil {
			break
		}
		var n, i int
		if _, err := fmt.Sscanf(string(line[:min(len(line), 20)]), "%d %d", &n, &i); err != nil || i != next[n] {
			t.Fatalf("%.20q came, want line %d: %v", line, next[n], err)
		}
		next[n]++
	}
	for n, got := range next {
		if got != each {
			t.Errorf("writer %d: %d lines came, want %d", n, got, each)
		}
	}
}

func TestBurstHoldsUntilItsEnd(t *testing.T) {
	burst := new(Burst)
	w, r, end := pipe(t, 1<<20, burst)
	defer end()
	burst.Begin()
	mustWrite(t, w, "a", "b")
	if err := r.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 100)
	if n, err := r.Read(buffer); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %q, %v before the end", buffer[:n], err)
	}
	_ = r.SetReadDeadline(time.Time{})
	burst.End()
	if n, err := r.Read(buffer); err != nil || string(buffer[:n]) != "a\nb\n" {
		t.Errorf("read %q, %v; want both lines", buffer[:n], err)
	}
	mustWrite(t, w, "c")
	if n, err := r.Read(buffer); err != nil || string(buffer[:n]) != "c\n" {
		t.Errorf("read %q, %v; want the third", buffer[:n], err)
	}
}
