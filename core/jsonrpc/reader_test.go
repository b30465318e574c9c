package jsonrpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// chunks hands out a text in pieces of the given sizes, over and over.
type chunks struct {
	text  string
	sizes []byte
	next  int
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.text == "" {
		return 0, io.EOF
	}
	n := min(len(p), len(c.text), int(c.sizes[c.next%len(c.sizes)])+1)
	c.next++
	copy(p, c.text[:n])
	c.text = c.text[n:]
	return n, nil
}

// readAll reads to the end; a line that is too long becomes "TOO LONG" and its id.
func readAll(t testing.TB, r *Reader) []string {
	t.Helper()
	var lines []string
	for {
		line, err := r.Read()
		var long *TooLongError
		switch {
		case errors.As(err, &long):
			lines = append(lines, "TOO LONG "+string(long.ID()))
		case errors.Is(err, io.EOF):
			return lines
		case err != nil:
			t.Fatalf("Read: %v", err)
		default:
			lines = append(lines, string(line))
		}
	}
}

func TestReaderFindsLinesWhereverTheStreamIsCut(t *testing.T) {
	const stream = "\n{\"a\":1}\n\r\n \t\n{\"b\":\"ü\"}\r\n\n\nlast"
	want := []string{`{"a":1}`, "{\"b\":\"ü\"}\r", "last"}
	for cut := range len(stream) {
		r := NewReader(io.MultiReader(strings.NewReader(stream[:cut]), strings.NewReader(stream[cut:])), 0)
		if got := readAll(t, r); !slices.Equal(got, want) {
			t.Errorf("cut at %d: %q, want %q", cut, got, want)
		}
	}
	for name, stream := range map[string]io.Reader{
		"byte by byte":   iotest.OneByteReader(strings.NewReader(stream)),
		"data with EOF":  iotest.DataErrReader(strings.NewReader(stream)),
		"own bufio":      bufio.NewReaderSize(strings.NewReader(stream), 16),
		"half of a read": iotest.HalfReader(strings.NewReader(stream)),
	} {
		if got := readAll(t, NewReader(stream, 0)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestReaderOfNothing(t *testing.T) {
	for _, stream := range []string{"", "\n", "\r\n \n\t", "\n\n\n"} {
		if got := readAll(t, NewReader(strings.NewReader(stream), 0)); got != nil {
			t.Errorf("%q: %q, want nothing", stream, got)
		}
	}
}

func TestReaderKeepsLinesAcrossItsBuffer(t *testing.T) {
	for _, size := range []int{readBuffer - 1, readBuffer, readBuffer + 1, 2 * readBuffer, 5*readBuffer + 7, 3 << 20} {
		long := strings.Repeat("x", size)
		got := readAll(t, NewReader(strings.NewReader(long+"\nshort\n"+long), 0))
		if want := []string{long, "short", long}; !slices.Equal(got, want) {
			t.Errorf("%d bytes: %d lines, want 3 unchanged", size, len(got))
		}
	}
}

func TestReaderGivesItsLinesAway(t *testing.T) {
	r := NewReader(strings.NewReader("first\nother\n"), 0)
	first, _ := r.Read()
	_, _ = r.Read()
	if string(first) != "first" {
		t.Errorf("the next Read made %q of the line before", first)
	}
}

func TestReaderTakesLinesUpToItsLimit(t *testing.T) {
	for _, limit := range []int{1, 100, readBuffer - 1, readBuffer, readBuffer + 1, 3*readBuffer + 5} {
		fits, not := strings.Repeat("y", limit), strings.Repeat("n", limit+1)
		for _, end := range []string{"\n", ""} {
			got := readAll(t, NewReader(strings.NewReader(fits+"\n"+not+"\n"+fits+"\n"+not+end), limit))
			if want := []string{fits, "TOO LONG ", fits, "TOO LONG "}; !slices.Equal(got, want) {
				t.Errorf("limit %d, end %q: wrong lines (%d)", limit, end, len(got))
			}
		}
	}
}

func TestReaderIsInStepAfterALineTooLong(t *testing.T) {
	const limit = 4 * readBuffer
	filler := strings.Repeat(`x\"}{`, limit)
	tests := map[string]struct{ line, id string }{
		"id first":            {`{"jsonrpc":"2.0","id":12,"method":"m","params":"` + filler + `"}`, `12`},
		"id before all":       {`{"id":"a-b","jsonrpc":"2.0","result":"` + filler + `"}`, `"a-b"`},
		"id first, spaced":    {` { "jsonrpc" : "2.0" , "id" : -3 , "result":"` + filler + `"}`, `-3`},
		"id last":             {`{"jsonrpc":"2.0","result":"` + filler + `","id":13}`, `13`},
		"id last, spaced":     {`{"result":"` + filler + `", "id" : "q" } ` + "\r", `"q"`},
		"id in the middle":    {`{"result":"` + filler + `","id":13,"x":"` + filler + `"}`, ``},
		"id with escapes":     {`{"id":"a\"b","result":"` + filler + `"}`, ``},
		"id inside the text":  {`{"result":"` + filler + `,\"id\":5}"}`, ``},
		"id of an inner one":  {`{"result":{"x":"` + filler + `","id":5}}`, ``},
		"id of no usual kind": {`{"id":null,"result":"` + filler + `"}`, ``},
		"no JSON":             {filler, ``},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := readAll(t, NewReader(strings.NewReader("before\n"+test.line+"\nafter\n"), limit))
			if want := []string{"before", "TOO LONG " + test.id, "after"}; !slices.Equal(got, want) {
				t.Errorf("got %.60q, want %q", got, want)
			}
		})
	}
}

func TestTooLongErrorKeepsBothEnds(t *testing.T) {
	for _, size := range []int{101, 5000, readBuffer, 3*readBuffer + 11} {
		line := make([]byte, size)
		for i := range line {
			line[i] = 'a' + byte(i%26)
		}
		_, err := NewReader(bytes.NewReader(append(bytes.Clone(line), '\n')), 100).Read()
		long, ok := errors.AsType[*TooLongError](err)
		if !ok {
			t.Fatalf("%d bytes: %v, want a TooLongError", size, err)
		}
		ends := min(size, endsOfLine)
		if !bytes.Equal(long.Head, line[:ends]) || !bytes.Equal(long.Tail, line[size-ends:]) {
			t.Errorf("%d bytes: head of %d or tail of %d is wrong", size, len(long.Head), len(long.Tail))
		}
		if long.Limit != 100 {
			t.Errorf("limit %d, want 100", long.Limit)
		}
	}
	if got := (&TooLongError{Limit: MaxLine}).Error(); got != "a message is longer than 64 MiB" {
		t.Errorf("got %q", got)
	}
}

func TestReaderPassesOnTheErrorOfTheStream(t *testing.T) {
	broken := errors.New("cable pulled")
	r := NewReader(io.MultiReader(strings.NewReader("whole\nhalf"), iotest.ErrReader(broken)), 0)
	for _, want := range []string{"whole", "half"} {
		if line, err := r.Read(); err != nil || string(line) != want {
			t.Fatalf("%q, %v; want %q", line, err, want)
		}
	}
	for range 2 {
		if _, err := r.Read(); !errors.Is(err, broken) {
			t.Errorf("err = %v, want %v", err, broken)
		}
	}
}

// A reader must not hold back a whole line because more may come.
func TestReaderDoesNotWaitForMore(t *testing.T) {
	ours, theirs := io.Pipe()
	defer ours.Close()
	r := NewReader(ours, 0)
	for i := range 3 {
		go fmt.Fprintf(theirs, "%d\n", i)
		if line, err := r.Read(); err != nil || string(line) != fmt.Sprint(i) {
			t.Fatalf("%q, %v; want %d", line, err, i)
		}
	}
}
