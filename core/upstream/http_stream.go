package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

const (
	// resumeTries is how many times in a row the rest of a stream is asked for in vain.
	resumeTries = 5
	// resumeLife is how long the rest of a stream has to last to be none of these, even
	// if nothing comes on it: proxies cut silent streams.
	resumeLife = 10 * time.Second
)

// eventEndpoint is the first event on a stream of the older HTTP with SSE.
const eventEndpoint = "endpoint"

// answerStream is the stream on which the answer to a request comes. It can consist of
// several HTTP answers, each of which goes on where the last one ended.
type answerStream struct {
	x *exchange
	// leave ends the stream some time after the answer.
	leave    *time.Timer
	answered bool
	// last is the id of the last event that came; "" when it cannot be gone on from.
	last string
	// retry is the pause that the server asked for.
	retry time.Duration
	// heard is how many events came.
	heard int
	// ended: the server ended the last one, where others broke.
	ended bool
}

// readStream delivers everything that comes on the stream until it ends, and asks for
// the rest where that is before the answer.
func (t *streamable) readStream(ctx context.Context, x *exchange, p httpReply) error {
	s := &answerStream{x: x, leave: time.AfterFunc(trailGrace, func() { x.abort(errAnswered) })}
	s.leave.Stop() // until there is an answer
	defer s.leave.Stop()
	broke := t.follow(ctx, s, p)
	if broke == nil || x.message.MethodName() == string(mcp.MethodInitialize) {
		return broke // an attempt to connect ends at the first thing that breaks
	}
	return t.resume(ctx, s, broke)
}

// follow delivers what comes on one HTTP answer. It returns nil when the answer to the
// request was there.
func (t *streamable) follow(ctx context.Context, s *answerStream, p httpReply) error {
	events := newEventReader(p.Body, t.limit)
	events.lastID = s.last
	for {
		e, err := events.next()
		s.last = events.lastID
		if events.retry > 0 {
			s.retry = events.retry
		}
		s.ended = errors.Is(err, io.EOF)
		switch {
		case err != nil && s.answered:
			return nil
		case s.ended:
			return t.failure(err, "ended its stream without an answer")
		case err != nil:
			return t.cutShort(ctx, err)
		case e.name == eventEndpoint:
			return t.foreign("answered with a stream of the older HTTP with SSE")
		}
		s.heard++
		m, ok := t.parseEvent(e.data)
		if !ok {
			continue
		}
		if m.Kind == jsonrpc.Response {
			if s.answered || !isAnswerTo(m, s.x.id) {
				t.strange(fmt.Errorf("a response on the stream of request %d is dropped", s.x.id))
				continue
			}
			s.answered = true
			s.leave.Reset(trailGrace)
		}
		t.sink.Receive(m, s.x.id)
	}
}

// resume asks for the rest of a stream that ended before the answer, if the server
// numbers its events (MCP 2025-11-25, "Resumability and Redelivery"). A server may end
// its streams on purpose and be asked again as often as it likes: who made the call
// decides how long to wait. What resume returns never says that the request did not
// run: it may have.
func (t *streamable) resume(ctx context.Context, s *answerStream, broke error) error {
	var long *jsonrpc.TooLongError
	pause := listenFirstPause
	for tries := 0; tries < resumeTries && s.last != "" && !errors.As(broke, &long); tries++ {
		wait := pause
		if s.retry > 0 {
			wait = min(s.retry, listenLastPause)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		next, err := t.resumeOnce(ctx, s)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case unsent(err): // the question for the rest, not the request: the server is gone
			t.finish(err)
			return &exchangeError{text: fmt.Sprintf("%v; asking for the rest of it: %v", broke, err), broken: true}
		case next == resumeNever:
			return broke
		}
		pause = min(2*pause, listenLastPause)
		if next == resumeOn {
			tries, pause = -1, listenFirstPause
		}
	}
	return broke
}

// resumption is what comes after asking for the rest of a stream brought no answer.
type resumption uint8

const (
	// resumeNever: there is no rest.
	resumeNever resumption = iota
	// resumeLater: it may be there later.
	resumeLater
	// resumeOn: it was there, and there is more.
	resumeOn
)

// resumeOnce asks for the rest once. Its error is nil when the answer came.
func (t *streamable) resumeOnce(ctx context.Context, s *answerStream) (resumption, error) {
	p, err := t.do(ctx, httpAsk{method: http.MethodGet, after: s.last})
	if err != nil {
		if endsConnection(err) {
			return resumeLater, err
		}
		return resumeNever, err
	}
	defer p.close()
	if p.StatusCode != http.StatusOK || p.media() != mediaEvents {
		body, _ := p.read(t.limit) // the status says enough
		err := t.refusal(p, body, false)
		t.strange(fmt.Errorf("the rest of a stream is refused: %w", err))
		if busy(p.StatusCode) {
			return resumeLater, err
		}
		return resumeNever, err
	}
	began, heard, last := time.Now(), s.heard, s.last
	err = t.follow(ctx, s, p)
	if s.ended || s.heard != heard || s.last != last || time.Since(began) >= resumeLife {
		return resumeOn, err
	}
	return resumeLater, err
}

// busy reports whether a status says that it may be another one later.
func busy(status int) bool {
	return status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}
