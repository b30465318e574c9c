package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBoardBeginsEmpty(t *testing.T) {
	if diff := cmp.Diff(Snapshot{}, NewBoard().Snapshot()); diff != "" {
		t.Errorf("a new board shows (-want +got):\n%s", diff)
	}
}

func TestBoardWaitBlocksUntilSomethingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBoard()
		begin := time.Now()
		time.AfterFunc(time.Hour, func() { b.SetServer(Server{Name: "a", State: Connected}) })
		snap, err := b.Wait(t.Context(), 0)
		if err != nil {
			t.Fatalf("Wait: %v", err)
		}
		if took := time.Since(begin); took != time.Hour {
			t.Errorf("woke after %v, want 1h", took)
		}
		if snap.Generation != 1 || len(snap.Servers) != 1 || snap.Servers[0].State != Connected {
			t.Errorf("snapshot %+v", snap)
		}
		// What is newer already comes at once.
		if again, err := b.Wait(t.Context(), 0); err != nil || again.Generation != 1 || time.Since(begin) != time.Hour {
			t.Errorf("generation %d, %v, after %v", again.Generation, err, time.Since(begin))
		}
	})
}

func TestBoardWaitEndsWithTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBoard()
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(enough) })
		if _, err := b.Wait(ctx, 0); !errors.Is(err, enough) {
			t.Errorf("err = %v, want %v", err, enough)
		}
		// News count more than the end.
		b.SetServer(Server{Name: "a"})
		if snap, err := b.Wait(ctx, 0); err != nil || snap.Generation != 1 {
			t.Errorf("generation %d, %v", snap.Generation, err)
		}
	})
}

func TestBoardWakesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBoard()
		var waiting sync.WaitGroup
		for range 10 {
			waiting.Go(func() {
				if snap, err := b.Wait(t.Context(), 0); err != nil || snap.Generation != 1 {
					t.Errorf("generation %d, %v", snap.Generation, err)
				}
			})
		}
		synctest.Wait()
		b.SetServer(Server{Name: "a"})
		waiting.Wait()
	})
}

// A slow reader misses what was in between, never the last; it holds up nobody.
func TestInvariant6_BoardCoalescesForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBoard()
		var seen []uint64
		var last Snapshot
		done := make(chan struct{})
		go func() {
			defer close(done)
			for last.Generation < 100 {
				snap, err := b.Wait(t.Context(), last.Generation)
				if err != nil {
					t.Errorf("Wait: %v", err)
					return
				}
				last = snap
				seen = append(seen, snap.Generation)
				time.Sleep(10 * time.Second) // a desktop that takes its time
			}
		}()
		begin := time.Now()
		for i := range 100 {
			b.SetServer(Server{Name: "a", Restarts: i + 1})
			time.Sleep(time.Second)
		}
		if took := time.Since(begin); took != 100*time.Second {
			t.Errorf("the writer took %v, want 100s", took)
		}
		<-done
		if len(seen) > 12 || last.Generation != 100 {
			t.Errorf("seen %v: want about a tenth of them, and 100 at the end", seen)
		}
	})
}

func TestBoardKeepsPlaces(t *testing.T) {
	b := NewBoard()
	for _, name := range []string{"a", "b", "c"} {
		b.SetServer(Server{Name: name, State: Connecting})
		b.SetSession(Session{ID: name})
	}
	b.SetServer(Server{Name: "b", State: Connected})
	b.SetSession(Session{ID: "b", Calls: 7})
	snap := b.Snapshot()
	if got := names(snap); !slices.Equal(got, []string{"a", "b", "c"}) || snap.Servers[1].State != Connected {
		t.Errorf("servers %v, b is %s", got, snap.Servers[1].State)
	}
	if got := sessions(snap); !slices.Equal(got, []string{"a", "b", "c"}) || snap.Sessions[1].Calls != 7 {
		t.Errorf("sessions %v, calls %d", got, snap.Sessions[1].Calls)
	}

	b.ArrangeServers([]string{"c", "unknown", "b"})
	if got := names(b.Snapshot()); !slices.Equal(got, []string{"c", "b"}) {
		t.Errorf("arranged: %v", got)
	}
	b.RemoveSession("a")
	b.RemoveSession("unknown")
	if got := sessions(b.Snapshot()); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("sessions left: %v", got)
	}
	if got, ok := b.Snapshot().Server("b"); !ok || got.State != Connected {
		t.Errorf("server b: %+v, %v", got, ok)
	}
	if _, ok := b.Snapshot().Server("a"); ok {
		t.Error("a dropped server is still found")
	}
}

func names(s Snapshot) (list []string) {
	for _, server := range s.Servers {
		list = append(list, server.Name)
	}
	return list
}

func sessions(s Snapshot) (list []string) {
	for _, session := range s.Sessions {
		list = append(list, session.ID)
	}
	return list
}

func TestBoardUpdateCountsGenerations(t *testing.T) {
	b := NewBoard()
	for want := uint64(1); want <= 3; want++ {
		b.Update(func(s *Snapshot) { s.Generation, s.ExposedTools = 99, int(want) })
		if snap := b.Snapshot(); snap.Generation != want || snap.ExposedTools != int(want) {
			t.Errorf("generation %d, tools %d, want both %d", snap.Generation, snap.ExposedTools, want)
		}
	}
}

func TestSnapshotsAreImmutable(t *testing.T) {
	b := NewBoard()
	for _, name := range []string{"a", "b", "c"} {
		b.SetServer(Server{Name: name, State: Connecting})
		b.SetSession(Session{ID: name})
	}
	changes := map[string]func(){
		"set server":      func() { b.SetServer(Server{Name: "a", State: Invalid}) },
		"add server":      func() { b.SetServer(Server{Name: "d"}) },
		"arrange servers": func() { b.ArrangeServers([]string{"c", "a", "d"}) },
		"set session":     func() { b.SetSession(Session{ID: "b", Calls: 1}) },
		"remove session":  func() { b.RemoveSession("a") },
		"add session":     func() { b.SetSession(Session{ID: "d"}) },
		"update":          func() { b.Update(func(s *Snapshot) { s.Config.Error, s.Tray.Shown = "x", true }) },
	}
	for name, change := range changes {
		old := b.Snapshot()
		copied := old
		copied.Servers, copied.Sessions = slices.Clone(old.Servers), slices.Clone(old.Sessions)
		change()
		if diff := cmp.Diff(copied, old); diff != "" {
			t.Errorf("%s: an old snapshot changed (-before +now):\n%s", name, diff)
		}
		if cmp.Equal(copied, b.Snapshot()) {
			t.Errorf("%s: the new snapshot is the old one", name)
		}
	}
}

func TestBoardTakesSettersFromEverywhere(t *testing.T) {
	const setters, each = 8, 200
	b := NewBoard()
	ctx, cancel := context.WithCancel(t.Context())
	var watching, setting sync.WaitGroup
	for range 3 {
		watching.Go(func() {
			var last uint64
			for {
				snap, err := b.Wait(ctx, last)
				if err != nil {
					return
				}
				if snap.Generation <= last {
					t.Errorf("generation %d came after %d", snap.Generation, last)
				}
				last = snap.Generation
				for _, server := range snap.Servers { // for the race detector
					_ = server.Restarts
				}
			}
		})
	}
	for n := range setters {
		setting.Go(func() {
			name := fmt.Sprint(n)
			for i := range each {
				b.SetServer(Server{Name: name, Restarts: i})
				b.SetSession(Session{ID: name})
				b.RemoveSession(name)
			}
		})
	}
	setting.Wait()
	snap := b.Snapshot()
	if snap.Generation != setters*each*3 || len(snap.Servers) != setters || len(snap.Sessions) != 0 {
		t.Errorf("generation %d, %d servers, %d sessions", snap.Generation, len(snap.Servers), len(snap.Sessions))
	}
	for _, server := range snap.Servers {
		if server.Restarts != each-1 {
			t.Errorf("server %s: a change was lost, at %d", server.Name, server.Restarts)
		}
	}
	cancel()
	watching.Wait()
}
