package endpoint

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"mcp-funnel/core/jsonrpc"
)

// However little is kept, a client that stays gets every event once and in order, one
// that comes back gets what is kept of those it lacks, and nothing is counted for ever.
func TestEventsAreNeitherLostNorDoubled(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it chooses cases
		l := defaultLimits()
		l.keptEvents = 1 + random.IntN(4)
		s := newSession("k", l)
		m, err := jsonrpc.Parse([]byte(call("1")))
		if err != nil {
			t.Fatal(err)
		}
		o := newOutlet()
		st := s.fly(m, o)
		put, got := 0, 0
		gone := 0 // up to here the events were given up while the client was away
		for range 200 {
			switch random.IntN(4) {
			case 0, 1:
				put++
				if _, err := fmt.Fprintf(s, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d}}`+"\n", put); err != nil {
					t.Fatal(err)
				}
			case 2:
				events, _ := s.take(st, o)
				for _, e := range events {
					if want := max(got, gone) + 1; e.id.event != want {
						t.Fatalf("seed %d: event %d of %d, want %d", seed, e.id.event, put, want)
					}
					got = e.id.event
				}
				if got != put {
					t.Fatalf("seed %d: %d of %d events", seed, got, put)
				}
			case 3:
				if got == 0 {
					continue // it could not come back
				}
				s.detach(st, o)
				gone = max(gone, put-l.keptEvents)
				o = newOutlet()
				if s.resume(eventID{stream: st.number, event: got}, o) != st {
					t.Fatalf("seed %d: the stream is not there any more", seed)
				}
			}
			if len(s.store.events) > l.keptEvents {
				t.Fatalf("seed %d: %d events are kept", seed, len(s.store.events))
			}
		}
		s.take(st, o)
		s.detach(st, o)
		kept := 0
		for _, e := range s.store.events {
			kept += len(e.line)
		}
		if s.backlog != 0 || s.store.bytes != kept || len(st.events) != len(s.store.events) {
			t.Errorf("seed %d: backlog %d, %d bytes of %d, %d events of %d", seed, s.backlog, s.store.bytes, kept, len(st.events), len(s.store.events))
		}
	}
}
