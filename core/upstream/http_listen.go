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

// listen keeps the stream open on which a server sends what belongs to no
// request (MCP 2025-11-25, "Listening for Messages from the Server"). Servers
// need not have one.
func (t *streamable) listen(ctx context.Context) {
	select {
	case <-t.ready:
	case <-ctx.Done():
		return
	}
	pause := listenFirstPause
	for wasUp := false; ; {
		began := time.Now()
		how, up, wish := t.listenOnce(ctx, wasUp)
		if how == listenNever || ctx.Err() != nil {
			return
		}
		wasUp = wasUp || up
		if time.Since(began) > listenLastPause {
			pause = listenFirstPause
		}
		timer := time.NewTimer(min(max(pause, wish), listenLastPause))
		select {
		case <-timer.C:
		case <-t.done:
			timer.Stop()
			return
		}
		pause = min(2*pause, listenLastPause)
	}
}

// listenOnce opens the stream and delivers what comes until it breaks. again says
// that it was up before, so that a failure now means more. up is whether the
// server offered it and wish the pause that the server asks for.
func (t *streamable) listenOnce(ctx context.Context, again bool) (how outcome, up bool, wish time.Duration) {
	p, err := t.do(ctx, http.MethodGet, nil)
	if err != nil {
		return t.notOpened(err, again), false, 0
	}
	defer p.close()
	if p.StatusCode == http.StatusOK && p.media() == mediaEvents {
		events := newEventReader(p.Body, t.limit)
		t.readUnasked(ctx, events)
		return listenAgain, true, events.retry
	}
	if !again {
		return listenNever, false, 0
	}
	body, _ := p.read(t.limit) // the status says enough
	var lost *SessionLostError
	switch err := t.refusal(p, body, false); {
	case errors.As(err, &lost):
		t.finish(err)
		return listenNever, false, 0
	case p.StatusCode == http.StatusTooManyRequests || p.StatusCode >= http.StatusInternalServerError:
		return listenAgain, false, 0
	default:
		t.strange(fmt.Errorf("its listening stream does not come back: %w", err))
		return listenNever, false, 0
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
		data, err := events.next()
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
		if m, ok := t.parseEvent(data); ok {
			t.sink.Receive(m, 0)
		}
	}
}
