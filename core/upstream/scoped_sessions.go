package upstream

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/config"
	"mcp-funnel/core/jsonrpc"
)

// binding is a session and the instance that it uses.
type binding struct {
	session Session
	// instance is nil until the session needed one. It is one of those present, and
	// knows the session.
	instance *instance
	// wanted: Run is to find the instance; busy: that is under way, and requests wait in
	// held so that they keep their order.
	wanted, busy bool
	held         []*Request
	// tried: it was asked for the folder to read the lists in.
	tried bool
	// stale: the client has other roots now, so that another instance may be its own.
	stale bool
}

// place is where an instance belongs.
type place struct{ key, folder, label string }

// bind returns the binding of a session. s.mu is held.
func (s *scoped) bind(session Session) *binding {
	b := s.bindings[session.ID()]
	if b == nil {
		b = &binding{session: session}
		s.bindings[session.ID()] = b
	}
	return b
}

// Forward implements [Server]: r goes to the instance of the session that asks.
func (s *scoped) Forward(r *Request) {
	target, refusal := s.admit(r)
	switch {
	case refusal != "":
		s.refuse(refusal, r)
	case target != nil:
		target.Forward(r)
	}
}

// admit finds the instance for r, or holds r until there is one, or says why it cannot
// be served.
func (s *scoped) admit(r *Request) (target *Upstream, refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why := s.refusal(); why != "" {
		return nil, why
	}
	if r.From == nil {
		return nil, fmt.Sprintf("runs for each client %s, and no client session asks", s.entry.Scope)
	}
	b := s.bind(r.From)
	if b.instance != nil && !b.stale && !b.wanted && !b.busy {
		r.taken = b.instance.upstream
		return r.taken, ""
	}
	if r.until.IsZero() {
		r.until = time.Now().Add(parkTime)
	}
	b.held = append(b.held, r)
	b.wanted = true
	s.poke()
	return nil, ""
}

// refuse answers requests that were not sent.
func (s *scoped) refuse(why string, requests ...*Request) {
	for _, r := range requests {
		r.fail(notCalled(s.name, r, why))
	}
}

// place finds the instance for b and sends what waited for it.
func (s *scoped) place(ctx context.Context, b *binding) {
	s.mu.Lock()
	entry := s.entry
	b.stale = false
	s.mu.Unlock()
	at, err := placeOf(ctx, entry, b.session)
	moved := s.settleIn(b, at, err)
	if moved != nil {
		s.subscribeAgain(b.session, moved)
	}
	for {
		r, target := s.nextHeld(b)
		if r == nil {
			return
		}
		target.Forward(r)
	}
}

// placeOf finds out where the instance for a session belongs. One for a session alone
// can do without a project's folder unless the entry says otherwise.
func placeOf(ctx context.Context, entry config.Server, session Session) (place, error) {
	folder, err := session.Folder(ctx)
	if err == nil {
		folder, err = canonical(folder)
	}
	if entry.Scope == config.PerSession {
		if !entry.NeedsFolder {
			err = nil
		}
		return place{key: session.ID(), folder: folder, label: session.ID() + " " + session.Label()}, err
	}
	return place{key: folder, folder: folder, label: folder}, err
}

// canonical is the one name of a folder, so that no two names of it make two instances.
func canonical(folder string) (string, error) {
	name, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return "", fmt.Errorf("cannot be started in the project's folder %q: %w", folder, err)
	}
	if info, err := os.Stat(name); err != nil || !info.IsDir() || !filepath.IsAbs(name) {
		return "", fmt.Errorf("cannot be started in %q: it is no folder", folder)
	}
	return name, nil
}

// settleIn makes the session of b use the instance at a place, or refuses what it waits
// for because of err. When the session leaves another instance for one that runs
// already, that is returned.
func (s *scoped) settleIn(b *binding, at place, err error) (moved *Upstream) {
	s.mu.Lock()
	why := s.refusal()
	id := b.session.ID()
	if why == "" && err != nil {
		why = err.Error()
	}
	i := s.instances[at.key]
	if why == "" && s.bindings[id] == b && i == nil {
		if ended, ok := s.makeRoom(); ok {
			i = s.newInstance(b.session, at)
			if ended != nil {
				i.after = append(i.after, ended)
			}
			s.instances[at.key] = i
		} else {
			why = fmt.Sprintf("has %d instances, as many as it may (maxInstances in its config), and all of them are in use", s.entry.MaxInstances)
		}
	}
	if why != "" || s.bindings[id] != b {
		held := b.held
		b.held, b.wanted, b.busy = nil, false, false
		s.poke() // another session may be asked for its folder
		s.mu.Unlock()
		s.refuse(why, held...)
		return nil
	}
	if old := b.instance; old != nil && old != i {
		s.departs(b)
		moved = i.upstream
	}
	i.sessions[id], i.idleSince, b.instance = b.session, time.Time{}, i
	s.publish()
	s.mu.Unlock()
	s.deps.Changed() // the lists of this instance may be others
	return moved
}

// nextHeld takes the next request that waited for b's instance, in their order. It
// returns nil when none is left, or none can be sent.
func (s *scoped) nextHeld(b *binding) (*Request, *Upstream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.instance == nil || len(b.held) == 0 {
		b.busy, b.wanted = false, len(b.held) > 0
		s.poke() // its instance may have been ended meanwhile, or this was the one to wait for
		return nil, nil
	}
	r := b.held[0]
	b.held = b.held[1:]
	r.taken = b.instance.upstream
	return r, r.taken
}

// departs takes the session of b from its instance. s.mu is held.
func (s *scoped) departs(b *binding) {
	i := b.instance
	b.instance = nil
	if i == nil {
		return
	}
	delete(i.sessions, b.session.ID())
	if len(i.sessions) == 0 {
		i.idleSince = time.Now()
		s.poke()
	}
}

// joined notes a session: where the lists depend on the project's folder, its own may
// be the first one.
func (s *scoped) joined(session Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bind(session)
	s.poke()
}

// left forgets a session, whose requests are over.
func (s *scoped) left(session Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bindings[session.ID()]
	if b == nil {
		return
	}
	delete(s.bindings, session.ID())
	s.departs(b)
	s.publish()
}

// Recall implements [Server].
func (s *scoped) Recall(r *Request) bool {
	held, taken := s.find(r)
	return held || taken != nil && taken.Recall(r)
}

// Cancel implements [Server].
func (s *scoped) Cancel(r *Request, params []byte) bool {
	r.withdrawn.Store(true)
	held, taken := s.find(r)
	return held || taken != nil && taken.Cancel(r, params)
}

// find takes r back if it waits for its instance, or returns that instance.
func (s *scoped) find(r *Request) (held bool, taken *Upstream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.From == nil {
		return false, nil
	}
	if b := s.bindings[r.From.ID()]; b != nil {
		if at := slices.Index(b.held, r); at >= 0 {
			b.held = slices.Delete(b.held, at, at+1)
			return true, nil
		}
	}
	return false, r.taken
}

// Notify implements [Server]: a client's notification goes to its own instance. With
// other roots its project may be another one, which its next request finds out.
func (s *scoped) Notify(from Caller, raw []byte) {
	session, ok := from.(Session)
	if !ok {
		return
	}
	m, err := jsonrpc.Parse(raw)
	rootsChanged := err == nil && m.MethodName() == string(mcp.MethodNotificationRootsListChanged)
	s.mu.Lock()
	var target *Upstream
	if b := s.bindings[session.ID()]; b != nil {
		b.stale = b.stale || rootsChanged
		b.tried = b.tried && !rootsChanged
		if b.instance != nil {
			target = b.instance.upstream
		}
		s.poke()
	}
	s.mu.Unlock()
	if target != nil {
		target.Notify(from, raw)
	}
}

// SetLogLevel implements [Server]: each instance is asked for what its own sessions
// want.
func (s *scoped) SetLogLevel(string) {
	for _, i := range s.present() {
		_, level := s.deps.WantedBy(s.name, s.sessionsOf(i))
		i.upstream.SetLogLevel(level)
	}
}

// present are the instances that there are now.
func (s *scoped) present() []*instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*instance, 0, len(s.instances)+1)
	for _, i := range s.instances {
		list = append(list, i)
	}
	if s.prober != nil {
		list = append(list, s.prober)
	}
	return list
}

// Subscribe implements [Server]. It is a use: without an instance one is started, which
// learns of the subscription when it is connected.
func (s *scoped) Subscribe(from Session, uri string) {
	if target := s.used(from); target != nil {
		target.Subscribe(from, uri)
	}
}

// used is the instance that a session uses; nil when that is about to be found.
func (s *scoped) used(session Session) *Upstream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal() != "" {
		return nil
	}
	b := s.bind(session)
	if b.instance != nil {
		return b.instance.upstream
	}
	b.wanted = true
	s.poke()
	return nil
}

// Unsubscribe implements [Server].
func (s *scoped) Unsubscribe(from Session, uri string) {
	s.mu.Lock()
	var target *Upstream
	if b := s.bindings[from.ID()]; b != nil && b.instance != nil {
		target = b.instance.upstream
	}
	s.mu.Unlock()
	if target != nil {
		target.Unsubscribe(from, uri)
	}
}

// subscribeAgain tells an instance that runs already what a session that comes to it
// wants to know.
func (s *scoped) subscribeAgain(session Session, target *Upstream) {
	subscriptions, _ := s.deps.WantedBy(s.name, []string{session.ID()})
	for _, uri := range subscriptions {
		target.Subscribe(session, uri)
	}
}

// Shares implements [Server].
func (s *scoped) Shares(one, other string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, b := s.bindings[one], s.bindings[other]
	return a != nil && b != nil && a.instance != nil && a.instance == b.instance
}
