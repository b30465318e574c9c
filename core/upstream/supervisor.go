package upstream

import (
	"context"
	"slices"
	"sync"
	"time"

	"mcp-funnel/core/config"
)

// Supervisor runs one [Server] for each configured server and keeps the set in
// step with the config.
type Supervisor struct {
	deps Deps
	// applied has room for one token: the set changed.
	applied chan struct{}

	mu sync.Mutex
	// order are the names of the present set, in the order of the config.
	order []string
	set   map[string]*member
	// leaving are members taken out whose servers are still being stopped: a
	// server of the same name waits for that.
	leaving map[string]*member
	// sessions are the client sessions there are, by id.
	sessions map[string]Session
}

// member is an upstream in the set and the life of its Run.
type member struct {
	upstream Server
	scope    config.Scope
	started  bool
	cancel   context.CancelFunc
	done     chan struct{} // closed when Run returned
}

// NewSupervisor returns a supervisor of no servers.
func NewSupervisor(deps Deps) *Supervisor {
	deps.starts = newStarts()
	return &Supervisor{
		deps:    deps,
		applied: make(chan struct{}, 1),
		set:     make(map[string]*member),
		leaving: make(map[string]*member),

		sessions: make(map[string]Session),
	}
}

// Apply makes the set that of entries: new ones are added, missing ones stopped,
// changed ones told. off says which ones the user switched off.
func (s *Supervisor) Apply(entries []config.Server, off func(name string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	order := make([]string, 0, len(entries))
	for _, entry := range entries {
		order = append(order, entry.Name)
		if m, ok := s.set[entry.Name]; ok {
			if m.scope == scopeOf(entry) {
				m.upstream.Apply(entry)
				continue
			}
			s.leave(entry.Name, m) // its successor is of another kind
		}
		m := &member{upstream: newServer(entry, !off(entry.Name), s.deps), scope: scopeOf(entry), done: make(chan struct{})}
		m.upstream.introduce()
		for _, session := range s.sessions {
			m.upstream.joined(session)
		}
		s.set[entry.Name] = m
	}
	for name, m := range s.set {
		if !slices.Contains(order, name) {
			s.leave(name, m)
		}
	}
	s.order = order
	s.deps.Board.ArrangeServers(order)
	select {
	case s.applied <- struct{}{}:
	default:
	}
}

// leave takes a member out. s.mu is held.
func (s *Supervisor) leave(name string, m *member) {
	delete(s.set, name)
	m.upstream.leave()
	if m.started {
		s.leaving[name] = m
		m.cancel()
	}
}

// Run starts the servers, those of later Applies too, and returns nil when ctx
// has ended and every one of them is stopped. They are stopped side by side.
func (s *Supervisor) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		s.start(ctx, &running)
		select {
		case <-s.applied:
		case <-ctx.Done():
			return nil
		}
	}
}

// start runs the members that do not run yet.
func (s *Supervisor) start(ctx context.Context, running *sync.WaitGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, m := range s.set {
		if m.started {
			continue
		}
		m.started = true
		var life context.Context
		life, m.cancel = context.WithCancel(ctx)
		previous := s.leaving[name]
		running.Go(func() { s.run(life, name, m, previous) })
	}
}

// run is the life of one member, which begins when its namesake is gone.
func (s *Supervisor) run(ctx context.Context, name string, m, previous *member) {
	defer close(m.done)
	defer m.cancel()
	if previous != nil {
		<-previous.done
	}
	// Run returns nil, always: a server that cannot be reached is no error here.
	_ = m.upstream.Run(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving[name] == m {
		delete(s.leaving, name)
	}
}

// Joined tells the servers of a client session, which may not have asked for anything
// yet.
func (s *Supervisor) Joined(session Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[session.ID()] = session
	for _, m := range s.set {
		m.upstream.joined(session)
	}
}

// Left tells the servers that a client session is over, and all its requests.
func (s *Supervisor) Left(session Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session.ID())
	for _, m := range s.set {
		m.upstream.left(session)
	}
}

// Lookup finds a server by name.
func (s *Supervisor) Lookup(name string) (Server, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.set[name]
	if !ok {
		return nil, false
	}
	return m.upstream, true
}

// Upstreams returns all servers, in the order of the config.
func (s *Supervisor) Upstreams() []Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Server, 0, len(s.order))
	for _, name := range s.order {
		all = append(all, s.set[name].upstream)
	}
	return all
}

// Settle waits until every present server has its first attempt behind it, or
// until ctx ends.
func (s *Supervisor) Settle(ctx context.Context) {
	for _, u := range s.Upstreams() {
		select {
		case <-u.Settled():
		case <-ctx.Done():
			return
		}
	}
}

// checkPause lies between two servers that are looked at, so that a machine that
// wakes up is not busy with all of them at once.
const checkPause = 100 * time.Millisecond

// CheckAll has every server looked at, one after the other; see [Upstream.Check]. It
// returns when that is under way for all, or ctx ends.
func (s *Supervisor) CheckAll(ctx context.Context) {
	for i, u := range s.Upstreams() {
		if i > 0 {
			select {
			case <-time.After(checkPause):
			case <-ctx.Done():
				return
			}
		}
		u.Check()
	}
}

// Name is the server's name in the config.
func (u *Upstream) Name() string { return u.name }
