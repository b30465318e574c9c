package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"mcp-funnel/core/jsonrpc"
)

// The pauses before a listening stream that broke is opened again grow from the
// first to the last; one that lived longer than the last begins with the first.
const (
	listenFirstPause = time.Second
	listenLastPause  = time.Minute
)

// outcome is how an attempt to listen ended.
type outcome uint8

const (
	// listenAgain: the stream broke, or the server is busy; try later.
	listenAgain outcome = iota
	// listenNever: the server has no such stream, or the connection is over.
	listenNever
)

// listening is where the listening stream of a connection stands.
type listening struct {
	// wasUp: the server offered it before, so that a failure now means more.
	wasUp bool
	// last is the id of the last event that came on it; "" to begin anew.
	last string
	// wish is the pause that the server asks for.
	wish time.Duration
}

// listen keeps the stream open on which a server sends what belongs to no
// request (MCP 2025-11-25, "Listening for Messages from the Server"). Servers
// need not have one.
func (t *streamable) listen(ctx context.Context) {
	t.waitReady(ctx)
	pause := listenFirstPause
	for l := new(listening); ctx.Err() == nil; {
		began := time.Now()
		if t.listenOnce(ctx, l) == listenNever || ctx.Err() != nil {
			return
		}
		if time.Since(began) > listenLastPause {
			pause = listenFirstPause
		}
		timer := time.NewTimer(min(max(pause, l.wish), listenLastPause))
		select {
		case <-timer.C:
		case <-t.done:
			timer.Stop()
			return
		}
		pause = min(2*pause, listenLastPause)
	}
}

// listenOnce opens the stream and delivers what comes until it breaks.
func (t *streamable) listenOnce(ctx context.Context, l *listening) outcome {
	after := l.last
	p, err := t.do(ctx, httpAsk{method: http.MethodGet, after: after})
	l.wish = 0
	if err != nil {
		return t.notOpened(err, l.wasUp)
	}
	defer p.close()
	if p.StatusCode == http.StatusOK && p.media() == mediaEvents {
		events := newEventReader(p.Body, t.limit)
		events.lastID = after
		t.readUnasked(ctx, events)
		l.wasUp, l.last, l.wish = true, events.lastID, events.retry
		return listenAgain
	}
	if !l.wasUp {
		return listenNever
	}
	body, _ := p.read(t.limit) // the status says enough
	var lost *SessionLostError
	switch err := t.refusal(p, body, false); {
	case errors.As(err, &lost):
		t.finish(err)
		return listenNever
	case busy(p.StatusCode):
		return listenAgain
	case after != "" && p.StatusCode != http.StatusMethodNotAllowed:
		l.last = "" // it does not know the event any more
		return listenAgain
	default:
		t.strange(fmt.Errorf("its listening stream does not come back: %w", err))
		return listenNever
	}
}

// notOpened judges why the stream could not be asked for. A server that cannot be
// connected to is gone; one that hangs up on the question has no such stream.
func (t *streamable) notOpened(err error, again bool) outcome {
	switch {
	case dialFailed(err):
		t.finish(err)
		return listenNever
	case again:
		return listenAgain
	}
	return listenNever
}

// readUnasked delivers what comes on the listening stream.
func (t *streamable) readUnasked(ctx context.Context, events *eventReader) {
	for {
		e, err := events.next()
		var long *jsonrpc.TooLongError
		switch {
		case errors.As(err, &long):
			t.strange(fmt.Errorf("an event is skipped: %w", err))
			continue
		case ctx.Err() != nil:
			return
		case err != nil:
			t.strange(fmt.Errorf("its listening stream ended: %w", t.cutShort(ctx, err)))
			return
		}
		if m, ok := t.parseEvent(e.data); ok {
			t.sink.Receive(m, 0)
		}
	}
}
