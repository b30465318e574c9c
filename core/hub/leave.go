package hub

import (
	"context"
	"slices"

	"mcp-funnel/core/jsonrpc"
)

// byeReplace is the reason of an app that makes way for another, which will go on with
// the sessions.
const byeReplace = "replace"

// Bye tells every bridge why the app is about to end: "quit" or "replace". Before a
// replacement, requests that no server has got are handed back, for the successor.
func (h *Hub) Bye(reason string) {
	h.mu.Lock()
	h.bye = reason
	sessions := slices.Clone(h.sessions)
	h.mu.Unlock()
	for _, s := range sessions {
		s.bye(reason)
	}
}

// Drain waits until no request is running any more, or ctx ends. It is called after
// Bye.
func (h *Hub) Drain(ctx context.Context) {
	for h.running() {
		select {
		case <-h.landed:
		case <-ctx.Done():
			return
		}
	}
}

func (h *Hub) running() bool {
	return slices.ContainsFunc(h.all(), func(s *session) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.flights) > 0
	})
}

// noteLanding wakes Drain.
func (h *Hub) noteLanding() {
	select {
	case h.landed <- struct{}{}:
	default:
	}
}

// bye tells the bridge, and hands back what can wait for the successor.
func (s *session) bye(reason string) {
	s.send([]byte(`{"mcp-funnel":1,"bye":` + string(jsonrpc.Quote(reason)) + `}`))
	if reason != byeReplace {
		return
	}
	s.mu.Lock()
	s.leaving = true
	flights := make([]*flight, 0, len(s.flights))
	for _, f := range s.flights {
		flights = append(flights, f)
	}
	s.mu.Unlock()
	for _, f := range flights {
		if f.server.Recall(f.request) && s.land(f.request) {
			s.handBack(f.request.Message)
		}
	}
}

// handsBack gives a request back that came after the bye, and reports whether it did.
func (s *session) handsBack(m jsonrpc.Message) bool {
	s.mu.Lock()
	leaving := s.leaving
	s.mu.Unlock()
	if leaving {
		s.handBack(m)
	}
	return leaving
}

// handBack gives the bridge a request that has not run, as the client wrote it.
func (s *session) handBack(m jsonrpc.Message) {
	line := append([]byte(`{"mcp-funnel":1,"return":`), m.Raw...)
	s.send(append(line, '}'))
}
