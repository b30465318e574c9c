package endpoint

import (
	"slices"
)

// event is one message for the client.
type event struct {
	stream *stream
	id     eventID
	// line is the message, without a newline.
	line []byte
	// kept: it is in the session's store.
	kept bool
}

// stream is a row of events that the client gets over one HTTP response, or over several
// one after the other when connections break. The lock of its session guards it.
type stream struct {
	number int
	// request and token are the ids, as they are on the wire, of the request that the
	// stream belongs to and of its progress; nil for a listening stream.
	request, token []byte
	listening      bool
	// opened: a client has listened on it. Else it only waits for one.
	opened bool
	// events that the client may still need, in order; the first sent of them have been
	// given to an outlet.
	events []*event
	sent   int
	// last is the number of the newest event.
	last int
	// primed: the client has an id of this stream, so that it can come back.
	primed bool
	// complete: no event will follow.
	complete bool
	// outlet is the response that it flows to, nil while there is none.
	outlet *outlet
}

// outlet is one HTTP response that takes a stream's events.
type outlet struct {
	// wake has room for one token: look again.
	wake chan struct{}
}

func newOutlet() *outlet { return &outlet{wake: make(chan struct{}, 1)} }

func (o *outlet) nudge() {
	if o == nil {
		return
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// reachable reports whether what is put into the stream can get to the client.
func (st *stream) reachable() bool { return st.outlet != nil || st.primed }

// waiting are the events that no outlet has been given.
func (st *stream) waiting() []*event { return st.events[st.sent:] }

// store holds events that were sent, or cannot be sent now, for a client that comes
// back: the newest of them, within limits. The lock of its session guards it.
type store struct {
	maxEvents, maxBytes int

	events []*event // the oldest first
	bytes  int
}

// keep takes an event, and gives up the oldest ones beyond the limits. The newest one
// stays, whatever its size.
func (k *store) keep(e *event) {
	if e.kept {
		return
	}
	e.kept = true
	k.events = append(k.events, e)
	k.bytes += len(e.line)
	for len(k.events) > 1 && (len(k.events) > k.maxEvents || k.bytes > k.maxBytes) {
		k.drop(k.events[0])
		k.events[0] = nil // for the garbage collector
		k.events = k.events[1:]
	}
}

// drop takes an event out of its stream. Those of one stream are kept in their order, so
// that it is the first there.
func (k *store) drop(e *event) {
	k.bytes -= len(e.line)
	st := e.stream
	st.events = slices.DeleteFunc(st.events, func(other *event) bool { return other == e })
	st.sent = max(st.sent-1, 0)
}

// forget gives up all events of a stream.
func (k *store) forget(st *stream) {
	k.events = slices.DeleteFunc(k.events, func(e *event) bool {
		if e.stream == st {
			k.bytes -= len(e.line)
		}
		return e.stream == st
	})
	st.events, st.sent = nil, 0
}
