package endpoint

// listen opens a listening stream for a client, with what waits for one.
func (s *session) listen(o *outlet) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listenLocked(o)
}

func (s *session) listenLocked(o *outlet) *stream {
	before := s.listeners()
	st := s.open(true)
	st.opened, st.primed, st.outlet = true, true, o
	attached := 0
	for _, old := range before { // the newest first
		if old.outlet == nil {
			for _, e := range old.waiting() {
				s.add(st, e.line)
			}
			s.discard(old)
		} else if attached++; attached >= s.limits.listeners {
			s.displace(old, nil)
			s.discard(old)
		}
	}
	return st
}

// resume gives a client that comes back the stream that it lost, from the event after
// the one it names. nil: there is nothing more to be had of it.
func (s *session) resume(id eventID, o *outlet) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[id.stream]
	if st == nil || st.listening != id.listening {
		if id.listening {
			return s.listenLocked(o)
		}
		return nil
	}
	s.displace(st, o)
	st.sent = 0
	for st.sent < len(st.events) && st.events[st.sent].id.event <= id.event {
		st.sent++
	}
	return st
}

// displace puts an outlet in the place of another, which ends. s.mu is held.
func (s *session) displace(st *stream, o *outlet) {
	old := st.outlet
	st.outlet = o
	old.nudge()
}
