package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// Times of watching over an idle connection (MCP 2025-11-25, "Ping"). With the
// usual interval of 30 s a silent server is lost within 90 s.
const (
	// pingLimit is how long a server may take to answer a ping. After one without
	// an answer the next follows at this interval.
	pingLimit = 10 * time.Second
	// pingMisses in a row are a lost connection.
	pingMisses = 3
)

// errNoPong: a ping was not answered in time.
var errNoPong = fmt.Errorf("no answer to a ping within %s", pingLimit)

// health watches over the connection of an [Upstream]: a server that is gone without
// a word is found out by asking. It belongs to Run.
type health struct {
	timer *time.Timer
	// interval is how long a connection may be silent; 0 never asks.
	interval time.Duration
	// heard is how many messages had come when last looked.
	heard  uint64
	misses int
	// asking: a ping is under way; asked is when it began.
	asking  bool
	asked   time.Time
	answers chan pong
}

// pong is the outcome of one ping.
type pong struct {
	link *link
	err  error
}

func newHealth() health {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return health{timer: timer, answers: make(chan pong, 1)}
}

// begin watches over a new connection, on which heard messages have come already.
func (h *health) begin(interval time.Duration, heard uint64) {
	h.interval, h.heard, h.misses = interval, heard, 0
	if interval > 0 {
		h.timer.Reset(interval)
	}
}

// end stops watching.
func (h *health) end() {
	h.interval = 0
	h.timer.Stop()
}

// doubted is ready when a request was answered as if nobody were behind the address;
// nil blocks for ever.
func (u *Upstream) doubted() <-chan struct{} {
	if u.live == nil || u.health.interval == 0 {
		return nil
	}
	return u.live.doubt
}

// examine looks after a connection that was silent: it asks, unless a request is
// under way, whose caller would suffer from a verdict about a server that is merely
// busy.
func (u *Upstream) examine(ctx context.Context, force bool) {
	h := &u.health
	if u.live == nil || u.machine.phase != up || h.interval == 0 || h.asking {
		return
	}
	busy, heard := u.live.activity()
	sinceAsked := time.Since(h.asked)
	switch {
	case busy:
		h.misses = 0
		h.timer.Reset(h.interval)
	case force && sinceAsked < pingLimit: // asked just now
		h.timer.Reset(pingLimit - sinceAsked)
	case heard != h.heard && h.misses == 0 && !force:
		h.heard = heard
		h.timer.Reset(h.interval / 2) // it was silent for less than the interval
	default:
		u.ping(ctx)
	}
}

// ping asks in the background; u.health.answers tells the outcome.
func (u *Upstream) ping(ctx context.Context) {
	l := u.live
	u.health.asking, u.health.asked = true, time.Now()
	u.work.Go(func() {
		ctx, cancel := context.WithTimeoutCause(ctx, pingLimit, errNoPong)
		defer cancel()
		_, err := l.call(ctx, mcp.MethodPing, nil)
		u.health.answers <- pong{link: l, err: err}
	})
}

// pinged takes the outcome of a ping.
func (u *Upstream) pinged(ctx context.Context, p pong) {
	h := &u.health
	h.asking = false
	if p.link != u.live || u.machine.phase != up || h.interval == 0 {
		if h.interval > 0 {
			h.timer.Reset(h.interval) // a new connection began meanwhile
		}
		return
	}
	busy, heard := u.live.activity()
	switch {
	case !unanswered(p.err):
		h.misses, h.heard = 0, heard
		h.timer.Reset(h.interval)
		return
	case busy: // no verdict now
		h.timer.Reset(pingLimit)
		return
	}
	if h.misses++; h.misses >= pingMisses {
		if refused, ok := errors.AsType[*statusError](p.err); ok {
			u.machine.hold(refused.retryAfter, time.Now())
		}
		u.connectionLost(ctx, fmt.Errorf("it is connected but silent: %d pings in a row failed, the last one: %w", h.misses, p.err))
		return
	}
	h.timer.Reset(max(0, pingLimit-time.Since(h.asked)))
}

// unanswered reports whether a ping that ended with err found nobody. Whatever the
// server itself answered is a sign of life, however odd.
func unanswered(err error) bool {
	var own *jsonrpc.Error
	var denied *AuthError
	var refused *statusError
	var odd *exchangeError
	switch {
	case err == nil, errors.As(err, &own), errors.As(err, &denied):
		return false
	case errors.As(err, &refused):
		return nobodyBehind(refused.status)
	case errors.As(err, &odd):
		return odd.broken || odd.cause != nil && errors.Is(odd.cause, context.DeadlineExceeded)
	}
	return true
}

// nobodyBehind reports whether an HTTP status is that of a proxy whose server is
// away, or of a server that is going.
func nobodyBehind(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}
