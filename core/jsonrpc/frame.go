package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// MaxLine is the longest message in bytes that is relayed. A longer one is
// skipped and fails alone.
const MaxLine = 64 << 20

// Errors of [Writer.Write].
var (
	// ErrBacklog: the other side does not read, and the queue is full.
	ErrBacklog = errors.New("the receiver does not read; too much is waiting for it")
	// ErrClosed: the writer was closed or its stream broke.
	ErrClosed = errors.New("the connection is closed")
)

// Writer queues lines for a stream, so that nobody who sends waits for the one
// who receives. What waits is bounded in bytes.
//
// What is queued is offered to the stream by the sender itself, where the system can
// say at once how much of it fits: that saves nearly always the wake-up of another
// goroutine. What does not fit is left to Run.
type Writer struct {
	limit int
	burst *Burst
	// ready has room for one token: there is something to do for Run.
	ready chan struct{}

	mu     sync.Mutex
	queue  [][]byte
	size   int // bytes in queue
	closed bool
	// stopped: nothing that is queued is written any more.
	stopped bool
	// put counts the messages queued, begun those of which a byte may have been
	// written, and last those in the write under way or just over. resting is how many
	// are in the rest of a write with which queue begins, and not begun; -1 without.
	put, begun, last, resting int
	// held: the end of a burst will send what is queued.
	held bool
	// writing: Run or a sender is writing, outside of mu, what came before the queue.
	// buffer is theirs; small lines are copied together in it.
	writing bool
	buffer  []byte
	// offer is nil while there is no stream to offer lines to.
	offer *offer
}

// NewWriter returns a writer that holds at most limit bytes besides what is just being
// written. One line is always taken when nothing waits, whatever its length. burst may
// be nil.
func NewWriter(limit int, burst *Burst) *Writer {
	return &Writer{limit: limit, burst: burst, ready: make(chan struct{}, 1), resting: -1}
}

// Write queues one message, which becomes the writer's own; the newline is added.
// It never blocks. It fails with [ErrBacklog] or [ErrClosed].
func (w *Writer) Write(message []byte) error {
	_, err := w.Put(message)
	return err
}

// Put is [Writer.Write] that also returns the message's place among all, from 1, to be
// compared with [Writer.Begun].
func (w *Writer) Put(message []byte) (place int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, ErrClosed
	}
	if w.size > 0 && w.size+len(message) > w.limit {
		return 0, ErrBacklog
	}
	w.put++
	place = w.put
	w.queue = append(w.queue, append(message, '\n'))
	w.size += len(message) + 1
	if w.held = w.held || w.burst.holds(w); !w.held {
		w.send()
	}
	return place, nil
}

// Begun is how many messages, counted by their places, may have reached the stream, in
// part or whole. Those after them did not. It is final once Run has returned.
func (w *Writer) Begun() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun
}

// release sends what a burst held.
func (w *Writer) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = false
	w.send()
}

// send brings the queue on its way. w.mu is held, but not while it writes.
func (w *Writer) send() {
	if w.offer != nil && !w.writing && len(w.queue) > 0 {
		batch, o := w.gather(), w.offer
		w.writing = true
		w.mu.Unlock()
		n := o.write(batch)
		w.mu.Lock()
		w.writing = false
		w.putBack(batch, n)
	}
	if len(w.queue) > 0 || w.closed {
		w.wake()
	}
}

// putBack puts what was not taken of a batch before what came meanwhile. w.mu is held.
func (w *Writer) putBack(batch []byte, taken int) {
	rest := batch[taken:]
	if len(rest) == 0 {
		return
	}
	w.resting = 0
	if taken == 0 {
		w.resting = w.last
		w.begun -= w.last
	}
	if w.stopped {
		return
	}
	if len(batch) <= gatherSize { // it may be in w.buffer
		rest = bytes.Clone(rest)
	}
	w.queue = slices.Insert(w.queue, 0, rest)
	w.size += len(rest)
}

// gather takes out of the queue what belongs into one write: a single line as it is,
// or several small ones in w.buffer. w.mu is held.
func (w *Writer) gather() []byte {
	batch, count := w.queue[0], 1
	if len(w.queue) > 1 && len(batch)+len(w.queue[1]) <= gatherSize {
		batch, count = w.buffer[:0], 0
		for count < len(w.queue) && len(batch)+len(w.queue[count]) <= gatherSize {
			batch = append(batch, w.queue[count]...)
			count++
		}
		w.buffer = batch
	}
	if w.last = count; w.resting >= 0 {
		w.last += w.resting - 1
		w.resting = -1
	}
	w.begun += w.last
	clear(w.queue[:count]) // for the garbage collector
	if count == len(w.queue) {
		w.queue = w.queue[:0]
	} else {
		w.queue = w.queue[count:]
	}
	w.size -= len(batch)
	return batch
}

// Stop lets Run return without writing what is still queued.
func (w *Writer) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed, w.stopped = true, true
	w.queue, w.size = nil, 0
	w.wake()
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
	w.setOffer(newOffer(dst))
	defer w.setOffer(nil)
	out := stalling{dst: dst, stall: stall}
	for range w.ready {
		batch, over := w.next(false)
		for len(batch) > 0 {
			if n, err := out.write(batch); err != nil {
				w.failed(n)
				return fmt.Errorf("writing: %w", err)
			}
			batch, over = w.next(true)
		}
		if over {
			return nil
		}
	}
	return nil
}

// failed notes that the last write failed after n bytes.
func (w *Writer) failed(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n == 0 {
		w.begun -= w.last
	}
}

func (w *Writer) setOffer(o *offer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offer = o
}

// next is what Run is to write; again: it has written what it got last. Nothing while a
// sender is writing, who wakes Run if something is left. over is true when nothing
// will follow.
func (w *Writer) next(again bool) (batch []byte, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if again {
		w.writing = false
	}
	if w.writing || len(w.queue) == 0 {
		return nil, w.closed && !w.writing
	}
	w.writing = true
	return w.gather(), false
}

// stalling is a stream whose writes have a time limit, where it has such limits.
type stalling struct {
	dst   io.Writer
	stall time.Duration
}

func (s stalling) write(batch []byte) (int, error) {
	if d, ok := s.dst.(interface{ SetWriteDeadline(time.Time) error }); ok && s.stall > 0 {
		// A stream without deadlines says so here; then there is none.
		_ = d.SetWriteDeadline(time.Now().Add(s.stall))
		defer func() { _ = d.SetWriteDeadline(time.Time{}) }() // it is for this write only
	}
	return s.dst.Write(batch)
}
