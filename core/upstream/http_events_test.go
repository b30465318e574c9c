package upstream

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tmaxmax/go-sse"

	"mcp-funnel/core/jsonrpc"
)

// readEvents reads all of r; the last error is not io.EOF.
func readEvents(r io.Reader, limit int) (data []string, long int, err error) {
	events := newEventReader(r, limit)
	for {
		event, err := events.next()
		var tooLong *jsonrpc.TooLongError
		switch {
		case errors.As(err, &tooLong):
			long++
		case errors.Is(err, io.EOF):
			return data, long, nil
		case err != nil:
			return data, long, err
		default:
			data = append(data, string(event))
		}
	}
}

func TestEventReader(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"one":              {"data: a\n\n", []string{"a"}},
		"no space":         {"data:a\n\n", []string{"a"}},
		"one space only":   {"data:  a \n\n", []string{" a "}},
		"CRLF":             {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		"CRLF within":      {"data: a\r\ndata: b\r\n\r\n", []string{"a\nb"}},
		"CR":               {"data: a\r\rdata: b\r\r", []string{"a", "b"}},
		"mixed":            {"data: a\r\n\rdata: b\n\r\n", []string{"a", "b"}},
		"several lines":    {"data: a\ndata: b\ndata\ndata: c\n\n", []string{"a\nb\n\nc"}},
		"other fields":     {"event: message\nid: 7\nretry: 10\nmore: x\ndata: a\n\n", []string{"a"}},
		"comments":         {": hello\n\n:\n\ndata: a\n: in between\n\n", []string{"a"}},
		"no data":          {"id: 1\n\nevent: x\n\ndata:\n\ndata\n\n", nil},
		"byte order mark":  {"\ufeffdata: a\n\ndata: \ufeffb\n\n", []string{"a", "\ufeffb"}},
		"mark, then blank": {"\ufeff\ndata: a\n\n", []string{"a"}},
		"no end":           {"data: a\n\ndata: b\n", []string{"a", "b"}},
		"no end of line":   {"data: a\n\ndata: b", []string{"a", "b"}},
		"other case":       {"Data: a\n\n data: a\n\n", nil},
		"nothing":          {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, r := range map[string]io.Reader{
				"at once":      strings.NewReader(test.text),
				"byte by byte": iotest.OneByteReader(strings.NewReader(test.text)),
			} {
				got, long, err := readEvents(r, 100)
				if diff := cmp.Diff(test.want, got); diff != "" || long > 0 || err != nil {
					t.Errorf("%s: %d too long, error %v (-want +got):\n%s", kind, long, err, diff)
				}
			}
		})
	}
}

func TestEventReaderKeepsRetry(t *testing.T) {
	events := newEventReader(strings.NewReader("retry: 1500\nretry: soon\nretry: -1\nretry: 99999999999\n\n"), 100)
	if _, err := events.next(); !errors.Is(err, io.EOF) || events.retry != 1500*time.Millisecond {
		t.Errorf("retry is %s, the error %v", events.retry, err)
	}
}

func TestEventReaderSkipsWhatIsTooLong(t *testing.T) {
	const limit = 1000
	fits := strings.Repeat("x", limit)
	for name, event := range map[string]string{
		"one line":     "data: " + fits + "x",
		"a long line":  "data: " + strings.Repeat("x", 100*limit),
		"many lines":   strings.Repeat("data: xx\n", limit) + "data: x",
		"empty lines":  "data: " + fits + strings.Repeat("\ndata", 100),
		"last of many": "data: x\ndata: " + fits,
	} {
		t.Run(name, func(t *testing.T) {
			text := "data: a\n\n" + event + "\n\ndata: " + fits + "\n\n"
			got, long, err := readEvents(iotest.HalfReader(strings.NewReader(text)), limit)
			if diff := cmp.Diff([]string{"a", fits}, got); diff != "" || long != 1 || err != nil {
				t.Errorf("%d too long, error %v (-want +got):\n%s", long, err, diff)
			}
		})
	}
}

func TestEventReaderTellsABrokenStream(t *testing.T) {
	broken := errors.New("broken")
	r := io.MultiReader(strings.NewReader("data: a\n\ndata: half"), iotest.ErrReader(broken))
	got, _, err := readEvents(r, 100)
	if diff := cmp.Diff([]string{"a"}, got); diff != "" || !errors.Is(err, broken) {
		t.Errorf("the error is %v (-want +got):\n%s", err, diff)
	}
}

func TestEventReaderTakesTheLongestMessage(t *testing.T) {
	message := bytes.Repeat([]byte("0123456789abcdef"), jsonrpc.MaxLine/16)
	r := io.MultiReader(strings.NewReader("data: "), bytes.NewReader(message), strings.NewReader("\n\n"))
	data, err := newEventReader(r, jsonrpc.MaxLine).next()
	if err != nil || !bytes.Equal(data, message) {
		t.Errorf("%d bytes of %d came, error %v", len(data), len(message), err)
	}
}

// FuzzEventReader holds the reader against another one. What the two do on
// purpose differently is left out: events without data, and at the end those
// without a blank line.
func FuzzEventReader(f *testing.F) {
	for _, seed := range []string{
		"data: a\n\n", "\ufeffdata: a\r\n\r\n", "data: a\rdata: b\r\r", "id: 1\nevent: e\n: c\ndata\n\n", "data:  \n\ndata", "\r\n\n\rdata:x\r\n\r",
		"\r\n\ufeffdata: a\n\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text += "\n\n"
		if strings.HasPrefix(text, "\r") || strings.HasPrefix(text, "\n") {
			// After blank lines the other reader still looks for a byte order mark.
			text = ":\n" + text
		}
		const limit = 1 << 20
		got, _, err := readEvents(strings.NewReader(text), limit)
		if err != nil {
			t.Fatal(err)
		}
		piecemeal, _, err := readEvents(iotest.OneByteReader(strings.NewReader(text)), limit)
		if diff := cmp.Diff(got, piecemeal); diff != "" || err != nil {
			t.Fatalf("byte by byte: error %v (-at once +byte by byte):\n%s", err, diff)
		}
		var want []string
		for event, err := range sse.Read(strings.NewReader(text), &sse.ReadConfig{MaxEventSize: limit}) {
			if err != nil {
				t.Skip("the other reader gives up: ", err)
			}
			if event.Data != "" {
				want = append(want, event.Data)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-other +ours):\n%s", text, diff)
		}
	})
}
