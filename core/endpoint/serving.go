package endpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// serving is the endpoint at one place: its connections and sessions.
type serving struct {
	deps   Deps
	limits limits
	guard  guard

	// running joins the sessions; ctx is theirs all.
	running sync.WaitGroup
	ctx     context.Context //nolint:containedctx // sessions outlive the requests that begin them
	end     context.CancelCauseFunc

	mu       sync.Mutex
	closed   bool
	sessions map[string]*session
}

func newServing(deps Deps, l limits, g guard) *serving {
	v := &serving{deps: deps, limits: l, guard: g, sessions: make(map[string]*session)}
	return v
}

// errClosed is the end of the sessions when the endpoint closes.
var errClosed = errors.New("the HTTP endpoint was closed")

// run takes connections until wait returns, which it passes on the error of the
// listener. It joins connections and sessions.
func (v *serving) run(ctx context.Context, listener net.Listener, wait func(context.Context, <-chan error) error) error {
	v.ctx, v.end = context.WithCancelCause(ctx)
	defer v.end(nil)
	var work, connections sync.WaitGroup
	server := &http.Server{
		Handler:                      v,
		ReadHeaderTimeout:            v.limits.header,
		IdleTimeout:                  v.limits.connection,
		MaxHeaderBytes:               64 << 10,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(v.deps.Log.Handler(), slog.LevelDebug),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				connections.Add(1)
			case http.StateClosed, http.StateHijacked:
				connections.Done()
			case http.StateActive, http.StateIdle:
			}
		},
	}
	failed := make(chan error, 1)
	work.Go(func() { failed <- fmt.Errorf("serving HTTP: %w", server.Serve(listener)) })
	work.Go(func() { v.sweep(v.ctx) })
	err := wait(ctx, failed)
	v.close()
	v.shutDown(context.WithoutCancel(ctx), server)
	work.Wait()
	connections.Wait()
	return err
}

// close ends all sessions, which answers what is unanswered, and begins no more.
func (v *serving) close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.end(errClosed)
	v.running.Wait()
}

// shutDown lets responses end that are under way, not for long.
func (v *serving) shutDown(ctx context.Context, server *http.Server) {
	ctx, cancel := context.WithTimeout(ctx, v.limits.goodbye)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close() // who has not taken the last words yet will not
	}
}

// find returns the session with that key, nil when there is none.
func (v *serving) find(key string) *session {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sessions[key]
}

// begin starts a session and enters it; nil when there are too many.
func (v *serving) begin() *session {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed || len(v.sessions) >= v.limits.sessions && !v.makeRoom() {
		return nil
	}
	s := newSession(rand.Text(), v.limits)
	ctx, end := context.WithCancelCause(v.ctx)
	s.end = end
	s.enter()
	v.sessions[s.key] = s
	id := v.deps.NewID()
	v.running.Go(func() {
		err := s.run(ctx, id, v.deps)
		if cause := context.Cause(ctx); err == nil && cause != nil {
			err = cause
		}
		v.remove(s, nil)
		v.deps.Log.Debug("an HTTP session ended", "session", id, "err", err)
	})
	return s
}

// errUnused is the end of a session that nobody used for a while.
var errUnused = errors.New("nobody used the session for a while")

// makeRoom ends the session that was unused for longest; false when all are in use.
// v.mu is held.
func (v *serving) makeRoom() bool {
	var oldest *session
	var since time.Time
	for _, s := range v.sessions {
		if used, unused := s.unused(); unused && (oldest == nil || used.Before(since)) {
			oldest, since = s, used
		}
	}
	if oldest == nil {
		return false
	}
	v.removeLocked(oldest, errUnused)
	return true
}

// remove ends a session; nobody finds it from now on.
func (v *serving) remove(s *session, why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.removeLocked(s, why)
}

func (v *serving) removeLocked(s *session, why error) {
	delete(v.sessions, s.key)
	s.end(why)
}

// sweep ends sessions that nobody used for a while, until ctx ends.
func (v *serving) sweep(ctx context.Context) {
	ticks := time.NewTicker(max(v.limits.session/10, time.Second))
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			v.mu.Lock()
			for _, s := range v.sessions {
				if since, unused := s.unused(); unused && now.Sub(since) >= v.limits.session {
					v.removeLocked(s, errUnused)
				}
			}
			v.mu.Unlock()
		}
	}
}
