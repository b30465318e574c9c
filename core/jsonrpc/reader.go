package jsonrpc

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
)

// TooLongError says that a line was longer than the limit. It was skipped up to
// its newline, so that the next Read is in step again.
type TooLongError struct {
	Limit int
	// Head and Tail are the two ends of the line, up to 4 KiB each.
	Head, Tail []byte
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("a message is longer than %d MiB", e.Limit>>20)
}

// endsOfLine is how much of each end of a skipped line is kept to look for its id.
const endsOfLine = 4 << 10

var (
	idAtHead = regexp.MustCompile(`^\s*\{(?:\s*"jsonrpc"\s*:\s*"2.0"\s*,)?\s*"id"\s*:\s*(-?\d+|"[^"\\]*")\s*,`)
	idAtTail = regexp.MustCompile(`,\s*"id"\s*:\s*(-?\d+|"[^"\\]*")\s*\}\s*$`)
)

// ID is the id of the skipped message, as it stood there, where one of the usual
// encoders put it at the beginning or at the end; else nil.
func (e *TooLongError) ID() []byte {
	if found := idAtHead.FindSubmatch(e.Head); found != nil {
		return found[1]
	}
	if found := idAtTail.FindSubmatch(e.Tail); found != nil {
		return found[1]
	}
	return nil
}

// add takes the next part of the line.
func (e *TooLongError) add(part []byte) {
	e.Head = append(e.Head, part[:min(len(part), endsOfLine-len(e.Head))]...)
	tail := append(e.Tail, part[max(0, len(part)-endsOfLine):]...)
	e.Tail = append(e.Tail[:0], tail[max(0, len(tail)-endsOfLine):]...)
}

const (
	// readBuffer is the usual size of a Reader's buffer: small, for there is one per
	// session. It grows with a line that is longer.
	readBuffer = 16 << 10
	// mostKept is how large a buffer is kept for the next line, when the last one was
	// long: they come in rows.
	mostKept = 4 << 20
)

// Reader splits a stream into lines.
type Reader struct {
	r   io.Reader
	max int
	// buffer holds, from start to end, what came and was not yet returned.
	buffer     []byte
	start, end int
	// last is the length of the line that was returned last; cut: its newline was
	// missing.
	last int
	cut  bool
	// err is how the stream ended.
	err error
}

// NewReader reads lines of at most max bytes from r; 0 means [MaxLine].
func NewReader(r io.Reader, max int) *Reader {
	if max == 0 {
		max = MaxLine
	}
	return &Reader{r: r, max: max}
}

// Read is [Reader.Next] with bytes that belong to the caller.
func (r *Reader) Read() ([]byte, error) {
	line, err := r.Next()
	if err != nil {
		return nil, err
	}
	return append(make([]byte, 0, len(line)+1), line...), nil
}

// Next returns the next line that is not blank, without its newline, for which there
// is room behind it. The bytes are the reader's own and change with the call after
// this one. A last line without a newline counts; see [Reader.Cut]. It fails with a
// [*TooLongError], after which reading goes on, or with the stream's error.
func (r *Reader) Next() ([]byte, error) {
	for {
		line, err := r.line()
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// More reports whether Next has another line without waiting for the stream, so that
// whoever gathers lines may go on gathering.
func (r *Reader) More() bool {
	unread := bytes.TrimLeft(r.buffer[r.start:r.end], " \t\r\n")
	return bytes.IndexByte(unread, '\n') >= 0
}

// Cut reports whether the stream ended within the line that was returned last.
func (r *Reader) Cut() bool { return r.cut }

// line returns one line, possibly blank, without its newline.
func (r *Reader) line() ([]byte, error) {
	r.cut = false
	for seen := 0; ; { // so many bytes are known to have no newline in them
		unread := r.buffer[r.start:r.end]
		newline := bytes.IndexByte(unread[seen:], '\n')
		switch {
		case newline >= 0 && seen+newline <= r.max:
			r.last = seen + newline
			r.start += r.last + 1
			return unread[: r.last : r.last+1], nil
		case newline >= 0 || len(unread) > r.max:
			return nil, r.skip()
		case r.err != nil:
			r.last, r.start, r.cut = len(unread), r.end, len(unread) > 0
			return unread, r.err
		}
		seen = len(unread)
		r.fill()
	}
}

// skip moves on to the end of a line that is too long.
func (r *Reader) skip() error {
	long := &TooLongError{Limit: r.max}
	for {
		part, _, ended := bytes.Cut(r.buffer[r.start:r.end], []byte{'\n'})
		long.add(part)
		r.start += len(part)
		r.last = 0
		if ended {
			r.start++
			return long
		}
		if r.err != nil {
			return long
		}
		r.fill()
	}
}

// fill reads once, into what room there is or is made.
func (r *Reader) fill() {
	unread := r.buffer[r.start:r.end]
	switch size := len(r.buffer); {
	case len(unread) == 0:
		if size < readBuffer || size > mostKept || size > readBuffer && r.last < readBuffer {
			r.buffer = make([]byte, readBuffer)
		}
		r.start, r.end = 0, 0
	case r.end < size: // there is room
	case len(unread) > size/2 && size < r.max+readBuffer:
		r.buffer = make([]byte, min(2*size, r.max+readBuffer))
		r.start, r.end = 0, copy(r.buffer, unread)
	default:
		r.start, r.end = 0, copy(r.buffer, unread)
	}
	var n int
	n, r.err = r.r.Read(r.buffer[r.end:])
	r.end += n
}
