package upstream

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

// parkTime is how long a request waits for a server that is being reconnected.
const parkTime = 5 * time.Second

// Forward relays r to the server. While the server is being reconnected r waits,
// and brings the next attempt forward. Its Caller gets exactly one reply.
func (u *Upstream) Forward(r *Request) {
	for {
		l, refusal := u.admit(r)
		if refusal != nil {
			r.fail(refusal)
			return
		}
		if l == nil {
			return // parked
		}
		err := l.forward(r)
		if err == nil {
			return
		}
		if errors.Is(err, jsonrpc.ErrBacklog) {
			r.fail(u.refusal(r, "does not read what it is sent, and too much waits for it already"))
			return
		}
		// The connection ended before anything was sent: nothing has run.
		u.retire(l)
	}
}

// admit finds the link for r, or parks it, or says why it cannot be served.
func (u *Upstream) admit(r *Request) (*link, *jsonrpc.Error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.link != nil {
		return u.link, nil
	}
	if u.ended != "" {
		return nil, u.refusal(r, u.ended)
	}
	switch u.shown.State {
	case status.Disabled:
		return nil, u.refusal(r, wordsOff)
	case status.Invalid:
		return nil, u.refusal(r, wordsWrong+u.shown.LastError)
	case status.NeedsAuth:
		return nil, u.refusal(r, "needs a log-in: "+u.shown.LastError)
	case status.Idle, status.Connecting, status.Connected, status.Reconnecting, status.SlowProbe:
	}
	if r.until.IsZero() {
		r.until = time.Now().Add(parkTime)
	}
	r.timer = time.AfterFunc(time.Until(r.until), func() { u.expire(r) })
	u.parked = append(u.parked, r)
	u.orders.wake = true
	select {
	case u.ordered <- struct{}{}:
	default:
	}
	return nil, nil
}

// takeBack forwards a request again that its link could not send.
func (u *Upstream) takeBack(l *link, r *Request) {
	u.retire(l)
	u.Forward(r)
}

// retire takes a link out of use that proved dead; Run will notice by itself.
func (u *Upstream) retire(l *link) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.link == l {
		u.link = nil
	}
}

// refusal is the error of a call that was not sent.
func (u *Upstream) refusal(r *Request, why string) *jsonrpc.Error { return notCalled(u.name, r, why) }

func notCalled(server string, r *Request, why string) *jsonrpc.Error {
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeServerError,
		Message: fmt.Sprintf("%q was not called: server %q %s", r.Label, server, why),
	}
}

// Words for why a server takes no requests.
const (
	wordsOff   = "is switched off; enable it in the tray menu or with `mcp-funnel enable`"
	wordsWrong = "has a wrong entry in the config: "
	wordsGone  = "is not there any more: it was taken out of the config, or the app quits"
)

// expire refuses a parked request whose time is over.
func (u *Upstream) expire(r *Request) {
	if !u.takeParked(r) {
		return
	}
	u.mu.Lock()
	shown := u.shown
	u.mu.Unlock()
	r.fail(u.refusal(r, "is not connected: "+describe(shown, time.Now())))
}

// describe says in words how a server that is down stands.
func describe(s status.Server, now time.Time) string {
	text := s.Words(now)
	if s.State == status.Reconnecting {
		text += fmt.Sprintf(", attempt %d of %d", s.Attempt, s.MaxAttempts)
	}
	if wait := s.NextAttemptAt.Sub(now); !s.NextAttemptAt.IsZero() && wait > 0 {
		text += fmt.Sprintf(", next try in %s", wait.Round(time.Second/10))
	} else {
		text += ", being tried now"
	}
	if s.LastError != "" {
		text += ". Last error: " + s.LastError
	}
	return text
}

// takeParked removes r from the parked ones and reports whether it was there: the
// one who gets true answers.
func (u *Upstream) takeParked(r *Request) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := slices.Index(u.parked, r)
	if at < 0 {
		return false
	}
	r.timer.Stop()
	u.parked = slices.Delete(u.parked, at, at+1)
	return true
}

func (u *Upstream) hasParked() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.parked) > 0
}

// unpark puts l into use and sends what waited for it.
func (u *Upstream) unpark(l *link) {
	u.mu.Lock()
	u.link = l
	u.mu.Unlock()
	for _, r := range u.takeAllParked() {
		u.Forward(r)
	}
}

// failParked refuses everything that waits; Forward finds the words.
func (u *Upstream) failParked() {
	for _, r := range u.takeAllParked() {
		u.Forward(r)
	}
}

func (u *Upstream) takeAllParked() []*Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	requests := u.parked
	u.parked = nil
	for _, r := range requests {
		r.timer.Stop()
	}
	return requests
}

// Recall takes back a request that has not been sent to the server, and reports
// whether it did; then r is as if it had never been forwarded.
func (u *Upstream) Recall(r *Request) bool { return u.takeParked(r) }

// Cancel withdraws r, which then gets no reply. params are those of the client's
// notifications/cancelled, nil when the client just went away. It reports whether
// r was still without a reply.
func (u *Upstream) Cancel(r *Request, params []byte) bool {
	r.withdrawn.Store(true) // for the moment in which it is neither parked nor sent
	if u.takeParked(r) {
		return true
	}
	u.mu.Lock()
	l := u.link
	u.mu.Unlock()
	return l != nil && l.cancel(r, params)
}
