//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"mcp-funnel/core/status"
)

// httpFaults are servers over HTTP that go away or answer badly.
func httpFaults() []fault {
	return []fault{
		{name: "http/stopped, called", did: "stopped until slow probe, started again on its port, then a call", play: stoppedThenCalled},
		{name: "http/stopped, idle", did: "the same with a tool more; nobody calls (a probe every 2 s)", play: stoppedIdle},
		{name: "http/restarted", did: "restarted between two calls: the session is gone (404)", play: restarted},
		{name: "http/404", did: "answers 404 to everything", play: notFound},
		{name: "http/503", did: "answers 503 to initialize, then gets well", play: func(ctx context.Context, t *trial) error {
			return busy(ctx, t, http.StatusServiceUnavailable, 0)
		}},
		{name: "http/503 Retry-After", did: "the same with Retry-After: 3, while retries come after 50 ms", play: func(ctx context.Context, t *trial) error {
			return busy(ctx, t, http.StatusServiceUnavailable, 3*time.Second)
		}},
		{name: "http/429 Retry-After", did: "answers 429 with Retry-After: 3 to initialize, then gets well", play: func(ctx context.Context, t *trial) error {
			return busy(ctx, t, http.StatusTooManyRequests, 3*time.Second)
		}},
		{name: "http/401", did: "answers 401 to initialize; later a log-in and Reconnect", play: unauthorized},
		{name: "http/no such host", did: "the name in its URL does not exist", play: noSuchHost},
	}
}

// startPeer starts an app over one HTTP server and attaches a client.
func (t *trial) startPeer(ctx context.Context, p *peer, how func(*entry)) (*session, error) {
	e := at(p.url())
	if how != nil {
		how(&e)
	}
	client, _, err := t.startOne(ctx, e)
	return client, err
}

// stopUntilSlowProbe stops a server that offers a stream, and waits until the app has
// used up its attempts.
func (t *trial) stopUntilSlowProbe(ctx context.Context, p *peer) error {
	mark, begun := t.events.mark(), time.Now()
	p.stop()
	lost, err := t.events.await(ctx, mark, status.EventDisconnected, "one")
	if err != nil {
		return err
	}
	t.noticed = append(t.noticed, lost.at.Sub(begun))
	_, err = t.in(ctx, "one", status.SlowProbe)
	return err
}

func stoppedThenCalled(ctx context.Context, t *trial) error {
	p, err := t.peer()
	if err != nil {
		return err
	}
	p.streams = true
	client, err := t.startPeer(ctx, p, nil)
	if err != nil {
		return err
	}
	for range t.rounds() {
		if err := t.stopUntilSlowProbe(ctx, p); err != nil {
			return err
		}
		if err := pause(ctx, wakeInterval); err != nil { // since the call before
			return err
		}
		if err := p.start(); err != nil {
			return err
		}
		_, took, err := measureCall(ctx, client, "one__pid", time.Now())
		if err != nil {
			return err
		}
		t.usable = append(t.usable, took)
	}
	t.within("the call", t.usable.median(), againLimit)
	t.remark("usable again is measured from the call on")
	return nil
}

func stoppedIdle(ctx context.Context, t *trial) error {
	const interval = 2 * time.Second
	p, err := t.peer()
	if err != nil {
		return err
	}
	p.streams = true
	client, err := t.startPeer(ctx, p, func(e *entry) { e.Reconnect.SlowProbeIntervalMs = int(interval.Milliseconds()) })
	if err != nil {
		return err
	}
	if err := t.stopUntilSlowProbe(ctx, p); err != nil {
		return err
	}
	for len(client.listChanged) > 0 {
		<-client.listChanged
	}
	p.change(func(p *peer) { p.tools = append(p.tools, "new") })
	begun := time.Now()
	if err := p.start(); err != nil {
		return err
	}
	select {
	case told := <-client.listChanged:
		t.usable = samples{told.Sub(begun)}
	case <-time.After(patience):
		t.check(false, "the client was told nothing of the changed list")
		return nil
	}
	t.within("telling the client", t.usable[0], interval+interval/4+500*time.Millisecond)
	_, err = client.call(ctx, "one__new")
	t.remark("usable again is list_changed at the client, from the start of the server on")
	return err
}

// restartTime is how long the restart of a quick server takes.
const restartTime = 50 * time.Millisecond

func restarted(ctx context.Context, t *trial) error {
	p, err := t.peer()
	if err != nil {
		return err
	}
	client, err := t.startPeer(ctx, p, nil)
	if err != nil {
		return err
	}
	for range t.rounds() {
		if err := untilStable(ctx); err != nil {
			return err
		}
		p.stop()
		// No server is back sooner. A call that overtakes the news that its connection
		// was closed may have run, and is refused.
		if err := pause(ctx, restartTime); err != nil {
			return err
		}
		if err := p.start(); err != nil {
			return err
		}
		mark, begun := t.events.mark(), time.Now()
		_, took, err := measureCall(ctx, client, "one__pid", begun)
		if err != nil {
			return err
		}
		lost, err := t.events.await(ctx, mark, status.EventDisconnected, "one")
		if err != nil {
			return err
		}
		t.noticed, t.usable = append(t.noticed, lost.at.Sub(begun)), append(t.usable, took)
	}
	t.within("the call", t.usable.median(), againLimit)
	return nil
}

func notFound(ctx context.Context, t *trial) error {
	p, err := t.peer()
	if err != nil {
		return err
	}
	p.status = http.StatusNotFound
	begun := time.Now()
	if err := t.start(ctx, one(at(p.url()))); err != nil {
		return err
	}
	first, err := t.events.await(ctx, 0, status.EventReconnecting, "one")
	if err != nil {
		return err
	}
	t.noticed = samples{first.at.Sub(begun)}
	s, err := t.in(ctx, "one", status.SlowProbe)
	t.contains("the status", s.LastError, "404", "url")
	t.usableAs = "never; slow probe"
	return err
}

// busy has the server answer with that status, and perhaps Retry-After, once. Before
// the time that the server asked for no request may come.
func busy(ctx context.Context, t *trial, code int, after time.Duration) error {
	p, err := t.peer()
	if err != nil {
		return err
	}
	p.status = code
	if after > 0 {
		p.retryAfter = fmt.Sprint(after.Seconds())
	}
	started := time.Now()
	e := at(p.url())
	e.Reconnect.MaxAttempts = 10
	if err := t.start(ctx, one(e)); err != nil {
		return err
	}
	var first time.Time
	for first.IsZero() {
		if all := p.requestsSince(started); len(all) > 0 {
			first = all[0]
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	s, err := t.until(ctx, "one", "being retried", func(s status.Server) bool { return s.LastError != "" })
	if err != nil {
		return err
	}
	t.noticed = samples{time.Since(first)}
	t.contains("the status", s.LastError, fmt.Sprint(code))
	if err := pause(ctx, time.Until(first.Add(after-50*time.Millisecond))); err != nil {
		return err
	}
	if early := len(p.requestsSince(first)); after > 0 {
		t.check(early == 0, "%d requests came before the %s that the server asked for", early, after)
	}
	p.change(func(p *peer) { p.status = 0 })
	up, err := t.events.await(ctx, 0, status.EventConnected, "one")
	if err != nil {
		return err
	}
	t.usable = samples{up.at.Sub(first)}
	t.within("being connected", t.usable[0], after+after/4+time.Second)
	return nil
}

func unauthorized(ctx context.Context, t *trial) error {
	p, err := t.peer()
	if err != nil {
		return err
	}
	p.status = http.StatusUnauthorized
	begun := time.Now()
	if err := t.start(ctx, one(at(p.url()))); err != nil {
		return err
	}
	s, err := t.in(ctx, "one", status.NeedsAuth)
	if err != nil {
		return err
	}
	t.noticed = samples{time.Since(begun)}
	t.contains("the status", s.LastError, "401")
	asked := time.Now()
	if err := pause(ctx, 3*time.Second); err != nil {
		return err
	}
	more := len(p.requestsSince(asked))
	t.check(more == 0, "%d requests came although the server refuses the log-in", more)
	p.change(func(p *peer) { p.status = 0 })
	mark, begun := t.events.mark(), time.Now()
	if err := t.reconnect(ctx); err != nil {
		return err
	}
	up, err := t.events.await(ctx, mark, status.EventConnected, "one")
	if err != nil {
		return err
	}
	t.usable = samples{up.at.Sub(begun)}
	t.within("being connected after Reconnect", t.usable[0], againLimit)
	t.remark("usable again is measured from Reconnect on")
	return nil
}

func noSuchHost(ctx context.Context, t *trial) error {
	begun := time.Now()
	if err := t.start(ctx, one(at("http://name.invalid:7/mcp"))); err != nil {
		return err
	}
	s, err := t.in(ctx, "one", status.SlowProbe)
	if err != nil {
		return err
	}
	t.noticedAs = "slow probe after " + short(time.Since(begun))
	t.contains("the status", s.LastError, "name.invalid", "cannot be reached")
	t.usableAs = "never; slow probe"
	return nil
}
