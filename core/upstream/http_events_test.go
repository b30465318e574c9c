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
			data = append(data, string(event.data))
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

func TestEventReaderTellsNamesAndIDs(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		names []string
		id    string
	}{
		"none":                {"data: a\n\n", []string{""}, ""},
		"name":                {"event: endpoint\ndata: a\n\n", []string{"endpoint"}, ""},
		"the last name":       {"event: x\ndata: a\nevent:y\n\n", []string{"y"}, ""},
		"for one event":       {"event: x\ndata: a\n\ndata: b\n\n", []string{"x", ""}, ""},
		"not past no data":    {"event: x\n\ndata: b\n\n", []string{""}, ""},
		"id":                  {"id: 7\ndata: a\n\n", []string{""}, "7"},
		"id stays":            {"id: 7\ndata: a\n\ndata: b\n\n", []string{"", ""}, "7"},
		"id without data":     {"id: 7\ndata:\n\n", nil, "7"},
		"empty id":            {"id: 7\n\nid\n\n", nil, ""},
		"id of half an event": {"id: 7\n\nid: 8\ndata: {", []string{""}, "7"},
		"id with NUL":         {"id: 7\n\nid: 8\x00\n\n", nil, "7"},
		"id for no header":    {"id: 7\n\nid: 8\x01\n\n", nil, ""},
		"id of any length":    {"id: 7\n\nid: " + strings.Repeat("8", maxEventID+1) + "\n\n", nil, ""},
		"id of too much":      {"id: 7\n\nid: 8\ndata: " + strings.Repeat("x", 20000) + "\n\n", nil, "8"},
	} {
		t.Run(name, func(t *testing.T) {
			events := newEventReader(strings.NewReader(test.text), 10000)
			var names []string
			for {
				e, err := events.next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err == nil {
					names = append(names, e.name)
				}
			}
			if diff := cmp.Diff(test.names, names); diff != "" || events.lastID != test.id {
				t.Errorf("the last id is %q, want %q; names (-want +got):\n%s", events.lastID, test.id, diff)
			}
		})
	}
}

// Encoders put the id of a message at its beginning or at its end.
func TestEventReaderKeepsTheIDOfWhatIsTooLong(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, data := range []string{
		`{"jsonrpc":"2.0","id":12,"result":"` + long + `"}`,
		`{"result":"` + long + `","jsonrpc":"2.0","id":12}`,
		`{"result":"` + long[:90_000] + `","jsonrpc":"2.0","id":12}`,
	} {
		for limit := range map[int]bool{9000: true, len(data) - 1: true, len(data) - 20: true} {
			_, err := newEventReader(strings.NewReader("data: "+data+"\n\n"), limit).next()
			var tooLong *jsonrpc.TooLongError
			if !errors.As(err, &tooLong) || string(tooLong.ID()) != "12" {
				t.Errorf("with a limit of %d of %d the error is %v", limit, len(data), err)
			}
		}
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
	event, err := newEventReader(r, jsonrpc.MaxLine).next()
	if err != nil || !bytes.Equal(event.data, message) {
		t.Errorf("%d bytes of %d came, error %v", len(event.data), len(message), err)
	}
}

// FuzzEventReader holds the reader against another one. What the two do on
// purpose differently is left out: events without data, and at the end those
// without a blank line.
func FuzzEventReader(f *testing.F) {
	for _, seed := range []string{
		"data: a\n\n", "\ufeffdata: a\r\n\r\n", "data: a\rdata: b\r\r", "id: 1\nevent: e\n: c\ndata\n\n", "data:  \n\ndata", "\r\n\n\rdata:x\r\n\r",
		"\r\n\ufeffdata: a\n\n", "event: endpoint\ndata: /m?s=1\n\nevent\nid\ndata: b\n\nevent: x\n\nid: \x00\n\n",
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
		got, id := allEvents(t, strings.NewReader(text), limit)
		piecemeal, idPiecemeal := allEvents(t, iotest.OneByteReader(strings.NewReader(text)), limit)
		if diff := cmp.Diff(got, piecemeal); diff != "" || id != idPiecemeal {
			t.Fatalf("byte by byte: id %q, at once %q (-at once +byte by byte):\n%s", id, idPiecemeal, diff)
		}
		var want []seenEvent
		for event, err := range sse.Read(strings.NewReader(text), &sse.ReadConfig{MaxEventSize: limit}) {
			if err != nil {
				t.Skip("the other reader gives up: ", err)
			}
			if event.Data != "" {
				want = append(want, seenEvent{event.Type, event.Data})
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-other +ours):\n%s", text, diff)
		}
		if strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(id) > maxEventID {
			t.Errorf("%q cannot be sent in a header", id)
		}
	})
}

type seenEvent struct{ Name, Data string }

func allEvents(t *testing.T, r io.Reader, limit int) (seen []seenEvent, lastID string) {
	t.Helper()
	events := newEventReader(r, limit)
	for {
		e, err := events.next()
		if errors.Is(err, io.EOF) {
			return seen, events.lastID
		}
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, seenEvent{e.name, string(e.data)})
	}
}
