package jsonrpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"
	"time"
)

// MaxLine is the longest message in bytes that is relayed. A longer one is
// skipped and fails alone.
const MaxLine = 64 << 20

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

// Reader splits a stream into lines.
type Reader struct {
	r   *bufio.Reader
	max int
}

// readBuffer is the size of a Reader's own buffer: small, for there is one per
// session; a longer line grows a buffer of its own.
const readBuffer = 16 << 10

// NewReader reads lines of at most max bytes from r; 0 means [MaxLine]. A
// bufio.Reader is used as it is.
func NewReader(r io.Reader, max int) *Reader {
	if max == 0 {
		max = MaxLine
	}
	buffered, ok := r.(*bufio.Reader)
	if !ok {
		buffered = bufio.NewReaderSize(r, readBuffer)
	}
	return &Reader{r: buffered, max: max}
}

// Read returns the next line that is not blank, without its newline. The bytes
// belong to the caller. A last line without a newline counts. It fails with a
// [*TooLongError], after which reading goes on, or with the stream's error.
func (r *Reader) Read() ([]byte, error) {
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

// line returns one line, possibly blank, without its newline.
func (r *Reader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := r.r.ReadSlice('\n')
		part = bytes.TrimSuffix(part, []byte{'\n'})
		if len(line)+len(part) > r.max {
			return nil, r.skip(line, part, err)
		}
		if len(line)+len(part) > cap(line) {
			line = slices.Grow(line, max(len(line), len(part))) // to double it
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// skip reads on to the end of a line that is too long. part is its latest piece
// and err how reading it ended.
func (r *Reader) skip(line, part []byte, err error) error {
	head := append(bytes.Clone(line[:min(len(line), endsOfLine)]), part...)
	tail := append(bytes.Clone(line[max(0, len(line)-endsOfLine):]), part...)
	for errors.Is(err, bufio.ErrBufferFull) {
		tail = append(tail[:0], tail[max(0, len(tail)-endsOfLine):]...)
		part, err = r.r.ReadSlice('\n')
		tail = append(tail, bytes.TrimSuffix(part, []byte{'\n'})...)
	}
	return &TooLongError{
		Limit: r.max,
		Head:  head[:min(len(head), endsOfLine)],
		Tail:  tail[max(0, len(tail)-endsOfLine):],
	}
}

// Errors of [Writer.Write].
var (
	// ErrBacklog: the other side does not read, and the queue is full.
	ErrBacklog = errors.New("the receiver does not read; too much is waiting for it")
	// ErrClosed: the writer was closed or its stream broke.
	ErrClosed = errors.New("the connection is closed")
)

// Writer queues lines for a stream, so that nobody who sends waits for the one
// who receives. What waits is bounded in bytes.
type Writer struct {
	limit int
	// ready has room for one token: there is something to do for Run.
	ready chan struct{}

	mu     sync.Mutex
	queue  [][]byte
	size   int // bytes in queue
	closed bool
}

// NewWriter returns a writer that holds at most limit bytes. One line is always
// taken when nothing waits, whatever its length.
func NewWriter(limit int) *Writer {
	return &Writer{limit: limit, ready: make(chan struct{}, 1)}
}

// Write queues one message, which becomes the writer's own; the newline is added.
// It never blocks. It fails with [ErrBacklog] or [ErrClosed].
func (w *Writer) Write(message []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	if w.size > 0 && w.size+len(message) > w.limit {
		return ErrBacklog
	}
	w.queue = append(w.queue, append(message, '\n'))
	w.size += len(message) + 1
	w.wake()
	return nil
}

// Close lets Run return when what is queued has been written.
func (w *Writer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.wake()
}

func (w *Writer) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// Run writes to dst what is queued, until Close and nothing is left, or until
// writing fails. Where dst has write deadlines, each write may take stall; the
// one who does not read for so long is given up.
func (w *Writer) Run(dst io.Writer, stall time.Duration) error {
	defer w.Close()
	deadline, _ := dst.(interface{ SetWriteDeadline(time.Time) error })
	var batch []byte
	for range w.ready {
		lines, closed := w.take()
		for len(lines) > 0 {
			batch, lines = gather(batch[:0], lines)
			if deadline != nil && stall > 0 {
				// A stream without deadlines says so here; then there is none.
				_ = deadline.SetWriteDeadline(time.Now().Add(stall))
			}
			if _, err := dst.Write(batch); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		}
		if cap(batch) > gatherSize {
			batch = nil
		}
		if closed {
			return nil
		}
	}
	return nil
}

// take empties the queue. closed is true when nothing will follow.
func (w *Writer) take() (lines [][]byte, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines, w.queue, w.size = w.queue, nil, 0
	return lines, w.closed
}

// gatherSize is how many bytes of small messages go into one write.
const gatherSize = 32 << 10

// gather takes as many lines as belong into one write: a single line as it is,
// several small ones copied together into buffer.
func gather(buffer []byte, lines [][]byte) (batch []byte, rest [][]byte) {
	if len(lines) == 1 || len(lines[0])+len(lines[1]) > gatherSize {
		return lines[0], lines[1:]
	}
	for len(lines) > 0 && len(buffer)+len(lines[0]) <= gatherSize {
		buffer = append(buffer, lines[0]...)
		lines = lines[1:]
	}
	return buffer, lines
}
