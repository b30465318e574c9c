package upstream

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"mcp-funnel/core/config"
	"mcp-funnel/core/status"
)

// refusal is why no request can be served, "" when they can. s.mu is held.
func (s *scoped) refusal() string {
	switch {
	case s.gone:
		return wordsGone
	case !s.on || !s.entry.Enabled:
		return wordsOff
	case s.entry.Problem != nil:
		return wordsWrong + s.entry.Problem.String()
	}
	return ""
}

// Reconnect implements [Server]: all instances are started afresh. Without one the
// lists are read again, where that is possible.
func (s *scoped) Reconnect() {
	s.mu.Lock()
	none := len(s.instances) == 0 && s.prober == nil
	if none {
		s.read, s.listsOf = false, ""
		for _, b := range s.bindings {
			b.tried = false
		}
		s.poke()
	}
	s.mu.Unlock()
	if none {
		return
	}
	for _, i := range s.present() {
		i.upstream.Reconnect()
	}
}

// Check implements [Server].
func (s *scoped) Check() {
	for _, i := range s.present() {
		i.upstream.Check()
	}
}

// SetEnabled implements [Server].
func (s *scoped) SetEnabled(on bool) { s.change(func() { s.on = on }) }

// Apply implements [Server]. Instances are restarted only when what changed concerns
// them.
func (s *scoped) Apply(entry config.Server) { s.change(func() { s.entry = entry }) }

// change carries out a change of the entry or of the user's wish.
func (s *scoped) change(carryOut func()) {
	s.mu.Lock()
	before, known := s.refusal(), s.entry.Fingerprint()
	carryOut()
	after, entry := s.refusal(), s.entry
	s.read = s.read && entry.Fingerprint() == known
	var over []*instance
	if after != "" {
		over = s.takeOutAll()
		s.settle()
	}
	s.publish()
	state := s.shown.State
	s.poke()
	s.mu.Unlock()

	for _, i := range over {
		i.upstream.leaveBecause(after)
		i.upstream.failParked()
		s.stop(i)
	}
	for _, i := range s.present() {
		i.upstream.Apply(instanceEntry(entry, i.folder))
	}
	if before == after {
		return
	}
	switch event := (status.Event{Server: s.name, State: state}); state {
	case status.Disabled:
		event.Name = status.EventDisabled
		s.deps.announce(event)
	case status.Invalid:
		event.Name, event.Error = status.EventInvalid, entry.Problem.String()
		s.deps.announce(event)
	default:
	}
	s.deps.Changed()
}

// takeOutAll takes out every instance and returns them. s.mu is held.
func (s *scoped) takeOutAll() []*instance {
	over := slices.Collect(maps.Values(s.instances))
	if s.prober != nil {
		over = append(over, s.prober)
	}
	for _, b := range s.bindings {
		b.instance, b.tried = nil, false
	}
	for _, i := range over {
		clear(i.sessions)
		s.takeOut(i)
	}
	return over
}

// stop has an instance stopped that was taken out.
func (s *scoped) stop(i *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopLocked(i)
}

// leave takes the server out of sight: it was taken out of the config.
func (s *scoped) leave() {
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	for _, i := range s.present() {
		i.upstream.leave()
	}
}

// end refuses what still waits and has every instance stopped.
func (s *scoped) end() {
	s.leave()
	s.mu.Lock()
	for _, i := range s.takeOutAll() {
		s.stopLocked(i)
	}
	fresh := s.fresh // they were never started: Run is over
	s.fresh = nil
	var held []*Request
	for _, b := range s.bindings {
		held = append(held, b.held...)
		b.held = nil
	}
	s.settle()
	s.mu.Unlock()
	s.refuse(wordsGone, held...)
	for _, i := range fresh {
		i.upstream.end()
		close(i.done)
	}
}

// settle notes that the lists are there, or will not come soon. s.mu is held, or
// nobody else knows s.
func (s *scoped) settle() {
	select {
	case <-s.settled:
	default:
		close(s.settled)
	}
}

// Settled implements [Server].
func (s *scoped) Settled() <-chan struct{} { return s.settled }

// Name implements [Server].
func (s *scoped) Name() string { return s.name }

// Lists implements [Server].
func (s *scoped) Lists() (lists Lists, visible bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists, s.refusal() == ""
}

// LastGood implements [Server].
func (s *scoped) LastGood() (fingerprint string, lists Lists) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listsOf, s.lists
}

// ListsFor implements [Server]: a session sees what its own instance has.
func (s *scoped) ListsFor(session string) (lists Lists, instance string, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bindings[session]
	if b == nil || b.instance == nil || b.instance.lists == nil || s.refusal() != "" || b.instance.lists.equal(s.lists) {
		return Lists{}, "", false
	}
	return *b.instance.lists, b.instance.key, true
}

// introduce puts the server on the board.
func (s *scoped) introduce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish()
}

// show takes what an instance shows. It is called under the instance's lock.
func (s *scoped) show(i *instance, shown status.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.shown = shown
	if i.ending {
		return
	}
	if s.prober == i && shown.State != status.Connecting {
		s.settle()
	}
	s.publish()
}

// publish puts the present status on the board. s.mu is held.
func (s *scoped) publish() {
	if s.gone {
		return
	}
	s.shown = s.status()
	s.deps.Board.SetServer(s.shown)
}

// status is that of the worst instance, with what is to be said of all. s.mu is held.
func (s *scoped) status() status.Server {
	var shown status.Server
	list := []status.Instance{}
	restarts := 0
	for _, i := range s.instances {
		list = append(list, status.Instance{Folder: i.label, State: i.shown.State, PID: i.shown.PID})
		restarts += i.shown.Restarts
		if i.shown.State.Severity() > shown.State.Severity() {
			shown = i.shown
		}
	}
	slices.SortFunc(list, func(a, b status.Instance) int { return cmp.Compare(a.Folder, b.Folder) })
	if shown.State == "" && s.prober != nil {
		shown = s.prober.shown
	}
	switch {
	case s.refusal() == wordsOff:
		shown = status.Server{State: status.Disabled}
	case s.refusal() != "":
		shown = status.Server{State: status.Invalid, LastError: s.entry.Problem.String()}
	case shown.State == "":
		shown = status.Server{State: status.Idle, LastError: s.unlisted()}
	}
	if shown.Since.IsZero() {
		shown.Since = s.shown.Since
		if s.shown.State != shown.State {
			shown.Since = status.At(time.Now())
		}
	}
	shown.Name, shown.Transport, shown.MaxAttempts = s.name, string(s.entry.Type), s.entry.Reconnect.MaxAttempts
	shown.Enabled = s.on && s.entry.Enabled
	shown.Instances, shown.Restarts, shown.PID = list, restarts, 0
	shown.Tools, shown.Prompts, shown.Resources = len(s.lists.Tools), len(s.lists.Prompts), len(s.lists.Resources)
	shown.Stale = !s.read && !s.lists.Empty()
	return shown
}

// unlisted says why an idle server lists nothing, "" when it does. s.mu is held.
func (s *scoped) unlisted() string {
	if !s.entry.NeedsFolder || s.read || !s.lists.Empty() {
		return ""
	}
	return "it lists nothing yet: its entry has ${PROJECT_DIR}, so its lists are read when the first client with a project folder comes"
}
