package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
	"unicode"

	"mcp-funnel/core/jsonrpc"
)

// eventBuffer is the size of an eventReader's own buffer.
const eventBuffer = 16 << 10

// eventReader reads the data of events (WHATWG HTML, section 9.2.6, "Interpreting
// an event stream"). It takes an event of any length in one pass.
type eventReader struct {
	r *bufio.Reader
	// limit is the longest data in bytes that is returned.
	limit int
	// begun: the position where a byte order mark may stand is behind us.
	begun bool
	// skipLF: the line before ended with CR, and a LF now belongs to that.
	skipLF bool
	position
}

// position is where in a stream a reader is.
type position struct {
	// id is that of the last event that was complete, "" where events have none.
	id string
	// retry is the last pause before opening the stream again that the server
	// asked for.
	retry time.Duration
}

func newEventReader(r io.Reader, limit int) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, eventBuffer), limit: limit}
}

// next returns the data of the next event that has any, which belongs to the
// caller. It fails with a [*jsonrpc.TooLongError], after which reading goes on,
// or with the stream's error. Unlike in the specification an event at the end of
// the stream needs no blank line behind it: half a message does not parse.
func (e *eventReader) next() ([]byte, error) {
	var data []byte
	var begun, long bool
	id := e.id
	for {
		line, cut, err := e.line(max(0, e.limit-len(data)))
		name, value := field(line)
		switch {
		case cut || long:
			long, data = true, nil
		case name == "data" && !begun:
			data, begun = value, true
		case name == "data":
			data = append(append(data, '\n'), value...)
		case name == "retry":
			e.setRetry(value)
		case name == "id" && !bytes.ContainsFunc(value, unicode.IsControl): // else no header could have it
			id = string(value)
		case len(line) == 0 && err == nil:
			e.id = id
		}
		long = long || len(data) > e.limit
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case len(line) > 0 && err == nil: // the event goes on
		case long:
			return nil, &jsonrpc.TooLongError{Limit: e.limit}
		case len(data) > 0:
			return data, nil
		case err != nil:
			return nil, err
		default:
			begun = false
		}
	}
}

// field splits a line into name and value.
func field(line []byte) (name string, value []byte) {
	before, after, _ := bytes.Cut(line, []byte{':'})
	return string(before), bytes.TrimPrefix(after, []byte{' '})
}

func (e *eventReader) setRetry(value []byte) {
	if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
		e.retry = time.Duration(ms) * time.Millisecond
	}
}

// fieldRoom is what a line may be longer than the data in it.
const fieldRoom = 16

// line returns the next line without its end, which is LF, CR or CRLF. Of a line
// with much more than room bytes the rest is dropped, and cut is true. The last
// line comes together with the error that ends the stream.
func (e *eventReader) line(room int) (line []byte, cut bool, err error) {
	for {
		if _, err := e.r.Peek(1); err != nil {
			return line, cut, err
		}
		chunk, _ := e.r.Peek(e.r.Buffered())
		if e.skipLF {
			e.skipLF = false
			if chunk[0] == '\n' {
				e.drop(1)
				continue
			}
		}
		end := lineEnd(chunk)
		part := chunk[:end]
		if free := room + fieldRoom - len(line); len(part) > free {
			part, cut = part[:free], true
		}
		line = append(line, part...)
		if end == len(chunk) {
			e.drop(end)
			continue
		}
		e.skipLF = chunk[end] == '\r'
		e.drop(end + 1)
		if !e.begun {
			e.begun = true
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		return line, cut, nil
	}
}

// lineEnd is where the first LF or CR stands in chunk, its length without any.
func lineEnd(chunk []byte) int {
	end := bytes.IndexByte(chunk, '\n')
	if end < 0 {
		end = len(chunk)
	}
	if cr := bytes.IndexByte(chunk[:end], '\r'); cr >= 0 {
		end = cr
	}
	return end
}

// drop moves over bytes that were peeked at, which cannot fail.
func (e *eventReader) drop(n int) { _, _ = e.r.Discard(n) }
