package upstream

import (
	"context"
	"slices"
	"sync"
	"time"

	"mcp-funnel/core/config"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

// scoped is a configured server that has an instance of its own, an [Upstream], for
// each client session or for each project folder. An instance is started when a
// session first needs it and ended some time after its last session left.
//
// Run is the only one that starts goroutines; the others note under mu what is to be
// done and poke it. mu may be taken by whoever holds the lock of an instance, because
// instances report what they show; so nothing of an instance is called under it.
type scoped struct {
	name string
	deps Deps
	// poked has room for one token: there is something to do for Run.
	poked chan struct{}
	// settled is closed when the lists are there, or will not come soon.
	settled chan struct{}

	mu    sync.Mutex
	entry config.Server
	on    bool // the user did not switch it off
	gone  bool // it takes no requests any more and is not shown
	shown status.Server
	// lists are what sessions without an instance see: those of the first instance that
	// told any, or the remembered ones. listsOf is the fingerprint of the entry they
	// belong to; read: an instance told them.
	lists   Lists
	listsOf string
	read    bool
	// prober is an instance for nobody, which is started only for its lists.
	prober *instance
	// instances are by key, the folder or the id of the session; bindings by session.
	instances map[string]*instance
	bindings  map[string]*binding
	// fresh are instances that Run has to start. leaving are those taken out whose
	// servers are still being stopped.
	fresh   []*instance
	leaving []*instance
}

// instance is one connection to the server.
type instance struct {
	key string
	// folder is the project's, "" without one; label names the instance to people.
	folder, label string
	upstream      *Upstream
	done          chan struct{} // closed when its Run returned

	// What follows is guarded by the mu of its owner. cancel ends it, and is there once
	// it was started.
	cancel   context.CancelFunc
	ending   bool
	sessions map[string]Session
	// idleSince is when its last session left; zero while there is one.
	idleSince time.Time
	// after are instances that have to be gone before it starts.
	after []*instance
	shown status.Server
	// lists are what it told, once it told anything.
	lists *Lists
}

// newScoped returns a server for entry, at rest.
func newScoped(entry config.Server, on bool, deps Deps) *scoped {
	if deps.starts == nil {
		deps.starts = newStarts()
	}
	s := &scoped{
		name: entry.Name, deps: deps, entry: entry, on: on,
		poked: make(chan struct{}, 1), settled: make(chan struct{}),
		lists: deps.Remembered(entry), listsOf: entry.Fingerprint(),
		instances: make(map[string]*instance), bindings: make(map[string]*binding),
	}
	if !s.lists.Empty() || entry.NeedsFolder || s.refusal() != "" {
		s.settle()
	}
	return s
}

// Run serves until ctx ends; it returns nil when no instance is left.
func (s *scoped) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	defer s.end()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Reset(s.tend(ctx, &running))
		select {
		case <-s.poked:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// poke wakes Run.
func (s *scoped) poke() {
	select {
	case s.poked <- struct{}{}:
	default:
	}
}

// tend starts and ends what is due and returns how long there is nothing more to do.
func (s *scoped) tend(ctx context.Context, running *sync.WaitGroup) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := s.endIdle(time.Now())
	s.wantLists()
	for _, b := range s.bindings {
		if b.wanted && !b.busy {
			b.busy = true
			running.Go(func() { s.place(ctx, b) })
		}
	}
	for _, i := range s.fresh {
		var life context.Context
		life, i.cancel = context.WithCancel(ctx)
		if i.ending {
			i.cancel()
		}
		running.Go(func() { s.run(life, i) })
	}
	s.fresh = nil
	return pause
}

// run is the life of one instance, which begins when those before it are gone.
func (s *scoped) run(ctx context.Context, i *instance) {
	defer i.cancel()
	for _, before := range i.after {
		<-before.done
	}
	// Run returns nil, always: a server that cannot be reached is no error here.
	_ = i.upstream.Run(ctx)
	close(i.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = slices.DeleteFunc(s.leaving, func(other *instance) bool { return other == i })
}

// endIdle ends the instances that nobody has used for long enough, and returns when the
// next one is due. s.mu is held.
func (s *scoped) endIdle(now time.Time) time.Duration {
	pause := time.Hour
	for _, i := range s.instances {
		if i.idleSince.IsZero() {
			continue
		}
		if rest := s.entry.IdleTimeout - now.Sub(i.idleSince); rest > 0 {
			pause = min(pause, rest)
			continue
		}
		s.note("nobody uses the instance for " + i.label + " any more: stopping it")
		s.endInstance(i)
		s.publish()
	}
	return pause
}

// wantLists sees to it that the lists are read, if they are not known: by an instance
// for nobody or, where the entry needs a project's folder, by that of a session. s.mu
// is held.
func (s *scoped) wantLists() {
	known := s.read || s.listsOf == s.entry.Fingerprint() && !s.lists.Empty()
	switch {
	case known || s.refusal() != "" || s.prober != nil || len(s.instances) > 0:
	case !s.entry.NeedsFolder:
		s.prober = s.newInstance(nil, place{})
		s.publish()
	default:
		for _, b := range s.bindings {
			if b.busy {
				return // this one may be it
			}
		}
		for _, b := range s.bindings {
			if !b.tried {
				b.tried, b.wanted = true, true
				return
			}
		}
	}
}

// newInstance makes an instance, for a session unless that is nil, which Run starts.
// s.mu is held.
func (s *scoped) newInstance(session Session, at place) *instance {
	i := &instance{key: at.key, folder: at.folder, label: at.label, done: make(chan struct{}), sessions: make(map[string]Session)}
	if session != nil {
		i.sessions[session.ID()] = session
	}
	for _, old := range s.leaving {
		if old.key == i.key {
			i.after = append(i.after, old)
		}
	}
	deps, lists := s.deps, s.lists
	deps.instance = i.label
	deps.Remembered = func(config.Server) Lists { return lists }
	deps.Changed = func() { s.took(i) }
	deps.News = func(server string, m jsonrpc.Message) { s.deps.NewsFor(server, s.sessionsOf(i), m) }
	deps.Wanted = func(server string) ([]string, string) { return s.deps.WantedBy(server, s.sessionsOf(i)) }
	deps.show = func(shown status.Server) { s.show(i, shown) }
	deps.owner = func() Caller { return s.ownerOf(i) }
	i.upstream = New(instanceEntry(s.entry, i.folder), true, deps)
	i.shown = i.upstream.firstShown()
	i.upstream.shown = i.shown // nobody else knows it yet
	s.fresh = append(s.fresh, i)
	s.poke()
	return i
}

// instanceEntry is the entry of the instance for a folder. What concerns only the set
// of instances is left out, so that a change of it restarts none.
func instanceEntry(entry config.Server, folder string) config.Server {
	entry = entry.In(folder)
	entry.IdleTimeout, entry.MaxInstances = 0, 0
	return entry
}

// endInstance takes an instance out and has it stopped. s.mu is held.
func (s *scoped) endInstance(i *instance) {
	s.takeOut(i)
	s.stopLocked(i)
}

// takeOut takes an instance out; its successor waits for its end. s.mu is held.
func (s *scoped) takeOut(i *instance) {
	if s.prober == i {
		s.prober = nil
	} else {
		delete(s.instances, i.key)
	}
	s.leaving = append(s.leaving, i)
}

// stopLocked has an instance stopped that was taken out. s.mu is held.
func (s *scoped) stopLocked(i *instance) {
	i.ending = true
	if i.cancel != nil {
		i.cancel()
	}
}

// makeRoom reports whether there may be another instance, if need be after ending the
// one that nobody has used for the longest time. s.mu is held.
func (s *scoped) makeRoom() (ended *instance, ok bool) {
	if len(s.instances) < s.entry.MaxInstances {
		return nil, true
	}
	for _, i := range s.instances {
		if !i.idleSince.IsZero() && (ended == nil || i.idleSince.Before(ended.idleSince)) {
			ended = i
		}
	}
	if ended == nil {
		return nil, false
	}
	s.endInstance(ended)
	return ended, true
}

// sessionsOf are the ids of the sessions that use an instance.
func (s *scoped) sessionsOf(i *instance) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(i.sessions))
	for id := range i.sessions {
		ids = append(ids, id)
	}
	return ids
}

// ownerOf is the only session that uses an instance, whatever runs there; nil when
// there are several, or none.
func (s *scoped) ownerOf(i *instance) Caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(i.sessions) != 1 {
		return nil
	}
	for _, session := range i.sessions {
		return session
	}
	return nil
}

// took takes over the lists of a connected instance.
func (s *scoped) took(i *instance) {
	fingerprint, lists := i.upstream.LastGood()
	s.mu.Lock()
	if i.ending || i.shown.State != status.Connected || fingerprint != s.entry.In(i.folder).Fingerprint() {
		s.mu.Unlock()
		return
	}
	i.lists = &lists
	if !s.read {
		s.lists, s.listsOf, s.read = lists, s.entry.Fingerprint(), true
	}
	if s.prober != nil { // it has done its work, or another one has
		s.endInstance(s.prober)
	}
	s.settle()
	s.publish()
	s.mu.Unlock()
	s.deps.Changed()
}

// note writes a remark into the server's own log.
func (s *scoped) note(text string) {
	if s.deps.Note != nil {
		s.deps.Note(s.name, text)
	}
}
