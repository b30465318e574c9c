package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"

	"mcp-funnel/core/jsonrpc"
)

// eventBuffer is the size of an eventReader's own buffer.
const eventBuffer = 16 << 10

// maxEventID is the longest event id in bytes that is remembered. It goes into a
// header, so that it cannot be of any length.
const maxEventID = 4 << 10

// event is what one event says.
type event struct {
	// name is its type, "" where that is not given.
	name string
	// data belongs to who reads.
	data []byte
}

// eventReader reads events (WHATWG HTML, section 9.2.6, "Interpreting an event
// stream"). It takes an event of any length in one pass.
type eventReader struct {
	r *bufio.Reader
	// limit is the longest data in bytes that is returned.
	limit int
	// begun: the place where a byte order mark may stand is behind us.
	begun bool
	// skipLF: the line before ended with CR, and a LF now belongs to that.
	skipLF bool
	// retry is the last pause before opening the stream again that the server
	// asked for.
	retry time.Duration
	// lastID is the id by which the server can tell what came after the events that
	// are complete; "" when it gave none.
	lastID string
	// tail is the end of what was dropped of a line, see endsOfEvent.
	tail []byte
}

func newEventReader(r io.Reader, limit int) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, eventBuffer), limit: limit}
}

// eventLines gathers the lines of one event.
type eventLines struct {
	event

	// id is what the event says of lastID; nil leaves that.
	id *string
	// begun: there is data, though it may be empty.
	begun bool
	// long is set when there is too much.
	long *jsonrpc.TooLongError
}

// next returns the next event that has any data. It fails with a
// [*jsonrpc.TooLongError], after which reading goes on, or with the stream's error.
// Unlike in the specification an event at the end of the stream needs no blank line
// behind it: half a message does not parse. Its id does not count then.
func (e *eventReader) next() (event, error) {
	var lines eventLines
	for {
		line, cut, err := e.line(max(0, e.limit-len(lines.data)))
		e.take(&lines, line, cut)
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return event{}, err
		case len(line) > 0 && err == nil: // the event goes on
			continue
		case err == nil && lines.id != nil:
			e.lastID = *lines.id
		}
		switch {
		case lines.long != nil:
			return event{}, lines.long
		case len(lines.data) > 0:
			return lines.event, nil
		case err != nil:
			return event{}, err
		default:
			lines = eventLines{}
		}
	}
}

// endsOfEvent is how much of each end of data that is too long is kept to look for
// the id of the message.
const endsOfEvent = 4 << 10

// take adds a line to an event. cut: there was more of it.
func (e *eventReader) take(lines *eventLines, line []byte, cut bool) {
	name, value := field(line)
	switch {
	case lines.long != nil:
	case name == "data" && !lines.begun:
		lines.data, lines.begun = value, true
	case name == "data":
		lines.data = append(append(lines.data, '\n'), value...)
	case name == "event":
		lines.name = string(value)
	case name == "id":
		lines.setID(value, cut)
	case name == "retry":
		e.setRetry(value)
	}
	if lines.long == nil && (cut || len(lines.data) > e.limit) {
		data := lines.data
		head, tail := data[:min(len(data), endsOfEvent)], data[max(0, len(data)-endsOfEvent):]
		lines.long = &jsonrpc.TooLongError{Limit: e.limit, Head: bytes.Clone(head), Tail: append(bytes.Clone(tail), e.tail...)}
		lines.data = nil
	}
}

// setID takes the id of an event. One that cannot be sent back in a header is none.
func (l *eventLines) setID(value []byte, cut bool) {
	if bytes.IndexByte(value, 0) >= 0 {
		return // so the specification
	}
	id := string(value)
	if cut || len(value) > maxEventID || bytes.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		id = ""
	}
	l.id = &id
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
	e.tail = e.tail[:0]
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
			e.keepTail(part[free:])
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

// keepTail keeps the end of what is dropped.
func (e *eventReader) keepTail(dropped []byte) {
	tail := append(e.tail, dropped[max(0, len(dropped)-endsOfEvent):]...)
	e.tail = append(e.tail[:0], tail[max(0, len(tail)-endsOfEvent):]...)
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
