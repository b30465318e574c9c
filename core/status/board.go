package status

import (
	"context"
	"slices"
	"sync"
)

// Board holds the newest [Snapshot] and wakes those who wait for a newer one.
// Its zero value is not usable; make one with [NewBoard].
type Board struct {
	mu sync.Mutex
	// snap is replaced, never changed in place: copies of it are out there.
	snap Snapshot
	// changed is closed and replaced whenever snap is.
	changed chan struct{}
}

// NewBoard returns an empty board at generation 0.
func NewBoard() *Board {
	return &Board{changed: make(chan struct{})}
}

// Snapshot returns the present picture.
func (b *Board) Snapshot() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.snap
}

// Wait returns the first snapshot newer than generation after; at once if there
// is one already. It fails only with the context's cause.
func (b *Board) Wait(ctx context.Context, after uint64) (Snapshot, error) {
	for {
		b.mu.Lock()
		snap, changed := b.snap, b.changed
		b.mu.Unlock()
		if snap.Generation > after {
			return snap, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Snapshot{}, context.Cause(ctx)
		}
	}
}

// Update lets change edit a copy of the snapshot and publishes it. The slices of
// the copy are shared with older snapshots: change must replace, not write to,
// their elements (the setters below do). It must not block.
func (b *Board) Update(change func(*Snapshot)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.snap
	change(&next)
	next.Generation = b.snap.Generation + 1
	b.snap = next
	close(b.changed)
	b.changed = make(chan struct{})
}

// SetServer replaces the entry of the same name, or appends it.
func (b *Board) SetServer(server Server) {
	b.Update(func(s *Snapshot) {
		s.Servers = put(s.Servers, server, func(other Server) bool { return other.Name == server.Name })
	})
}

// ArrangeServers drops the servers that are not in names and orders the rest
// like names.
func (b *Board) ArrangeServers(names []string) {
	b.Update(func(s *Snapshot) {
		arranged := make([]Server, 0, len(names))
		for _, name := range names {
			if server, ok := s.Server(name); ok {
				arranged = append(arranged, server)
			}
		}
		s.Servers = arranged
	})
}

// SetSession replaces the session with the same id, or appends it.
func (b *Board) SetSession(session Session) {
	b.Update(func(s *Snapshot) {
		s.Sessions = put(s.Sessions, session, func(other Session) bool { return other.ID == session.ID })
	})
}

// RemoveSession drops the session with that id.
func (b *Board) RemoveSession(id string) {
	b.Update(func(s *Snapshot) {
		s.Sessions = slices.DeleteFunc(slices.Clone(s.Sessions), func(other Session) bool { return other.ID == id })
	})
}

// put returns a copy of list in which item took the place of the element that
// same finds, or stands at the end.
func put[T any](list []T, item T, same func(T) bool) []T {
	list = slices.Clone(list)
	if i := slices.IndexFunc(list, same); i >= 0 {
		list[i] = item
		return list
	}
	return append(list, item)
}
