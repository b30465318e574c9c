package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func publish(e *Events, from, to int) {
	for n := from; n <= to; n++ {
		e.Publish(Event{Name: EventReconnecting, Attempt: n})
	}
}

func attempts(events []Event) (list []int) {
	for _, event := range events {
		list = append(list, event.Attempt)
	}
	return list
}

func TestEventsTellsWhatIsNewAndWhatIsLost(t *testing.T) {
	tests := map[string]struct {
		published int
		after     uint64
		want      []int
		last      uint64
		lost      uint64
	}{
		"from the beginning":   {3, 0, []int{1, 2, 3}, 3, 0},
		"the rest":             {3, 2, []int{3}, 3, 0},
		"a full ring":          {4, 0, []int{1, 2, 3, 4}, 4, 0},
		"one overwritten":      {5, 0, []int{2, 3, 4, 5}, 5, 1},
		"many overwritten":     {14, 3, []int{11, 12, 13, 14}, 14, 7},
		"none for one in pace": {14, 12, []int{13, 14}, 14, 0},
		"just not lost":        {14, 10, []int{11, 12, 13, 14}, 14, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := NewEvents(4, nil)
			publish(e, 1, test.published)
			events, last, lost, err := e.Next(t.Context(), test.after)
			if err != nil || !slices.Equal(attempts(events), test.want) || last != test.last || lost != test.lost {
				t.Errorf("events %v, last %d, lost %d, %v; want %v, %d, %d", attempts(events), last, lost, err, test.want, test.last, test.lost)
			}
			if e.Last() != test.last {
				t.Errorf("Last() = %d, want %d", e.Last(), test.last)
			}
		})
	}
}

func TestEventsNextBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEvents(4, nil)
		publish(e, 1, 2)
		begin := time.Now()
		time.AfterFunc(time.Hour, func() { publish(e, 3, 3) })
		events, last, lost, err := e.Next(t.Context(), e.Last())
		if err != nil || !slices.Equal(attempts(events), []int{3}) || last != 3 || lost != 0 {
			t.Errorf("events %v, last %d, lost %d, %v", attempts(events), last, lost, err)
		}
		if took := time.Since(begin); took != time.Hour {
			t.Errorf("came after %v, want 1h", took)
		}
	})
}

func TestEventsNextEndsWithTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEvents(4, nil)
		publish(e, 1, 1)
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(enough) })
		events, last, lost, err := e.Next(ctx, 1)
		if !errors.Is(err, enough) || events != nil || last != 1 || lost != 0 {
			t.Errorf("events %v, last %d, lost %d, err %v; want none, 1, 0, %v", events, last, lost, err, enough)
		}
	})
}

func TestEventsGetTheTimeUnlessTheyHaveOne(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	e := NewEvents(4, func() time.Time { return now })
	earlier := At(now.Add(-time.Hour))
	e.Publish(Event{Name: EventDisabled})
	e.Publish(Event{Name: EventDisabled, Time: earlier})
	events, _, _, _ := e.Next(t.Context(), 0)
	if !events[0].Time.Equal(now) || events[1].Time != earlier {
		t.Errorf("times %v and %v", events[0].Time, events[1].Time)
	}

	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Minute)
		e := NewEvents(1, nil)
		e.Publish(Event{})
		if events, _, _, _ := e.Next(t.Context(), 0); !events[0].Time.Equal(time.Now()) {
			t.Errorf("time %v, want %v", events[0].Time, time.Now())
		}
	})
}

func TestEventsReadAreNotOverwritten(t *testing.T) {
	e := NewEvents(2, nil)
	publish(e, 1, 2)
	events, _, _, _ := e.Next(t.Context(), 0)
	publish(e, 3, 9)
	if got := attempts(events); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("what was read became %v", got)
	}
}

// Whoever keeps reading accounts for every event: it came, or it is counted as lost.
func TestInvariant6_EventsFromEverywhereAreAllAccountedFor(t *testing.T) {
	const writers, each = 4, 500
	e := NewEvents(16, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			var last, came, lost uint64
			newest := map[string]int{}
			for came+lost < writers*each {
				events, now, missed, err := e.Next(ctx, last)
				if err != nil {
					t.Errorf("after %d and %d lost: %v", came, lost, err)
					return
				}
				if now != last+missed+uint64(len(events)) {
					t.Errorf("%d to %d: %d events, %d lost", last, now, len(events), missed)
				}
				last, came, lost = now, came+uint64(len(events)), lost+missed
				for _, event := range events {
					if event.N <= newest[event.Server] {
						t.Errorf("%s: %d after %d", event.Server, event.N, newest[event.Server])
					}
					newest[event.Server] = event.N
				}
			}
			if came+lost != writers*each {
				t.Errorf("%d came and %d were lost of %d", came, lost, writers*each)
			}
		})
	}
	for n := range writers {
		running.Go(func() {
			for i := range each {
				e.Publish(Event{Name: EventSlowProbeAttempt, Server: fmt.Sprint(n), N: i + 1})
			}
		})
	}
	running.Wait()
}

func TestEventJSON(t *testing.T) {
	at := At(time.Date(2026, 3, 1, 12, 0, 0, 123_000_000, time.UTC))
	zero, delay, code := 0, int64(0), 0
	tests := map[string]struct {
		event Event
		want  string
	}{
		// What may well be 0 is written all the same.
		"connected": {Event{Name: EventConnected, Server: "s", Time: at, State: Connected, PID: 7, ProtocolVersion: "2025-06-18", Tools: &zero},
			`{"event":"server.connected","server":"s","time":"2026-03-01T12:00:00.123Z","state":"connected","pid":7,"protocolVersion":"2025-06-18","tools":0}`},
		"disconnected": {Event{Name: EventDisconnected, Server: "s", Time: at, State: Reconnecting, Reason: "exited", ExitCode: &code, StderrTail: "bye"},
			`{"event":"server.disconnected","server":"s","time":"2026-03-01T12:00:00.123Z","state":"reconnecting","reason":"exited","exitCode":0,"stderrTail":"bye"}`},
		"reconnecting": {Event{Name: EventReconnecting, Server: "s", Time: at, State: Reconnecting, Attempt: 1, MaxAttempts: 10, NextRetryMs: &delay, Error: "x"},
			`{"event":"server.reconnecting","server":"s","time":"2026-03-01T12:00:00.123Z","state":"reconnecting","attempt":1,"maxAttempts":10,"nextRetryMs":0,"error":"x"}`},
		"slow probe": {Event{Name: EventSlowProbeStarted, Server: "s", Time: at, State: SlowProbe, ProbeIntervalMs: &delay, Error: "x"},
			`{"event":"server.slow_probe_started","server":"s","time":"2026-03-01T12:00:00.123Z","state":"slow_probe","probeIntervalMs":0,"error":"x"}`},
		"probed": {Event{Name: EventSlowProbeAttempt, Server: "s", Time: at, State: SlowProbe, N: 3, Error: "x"},
			`{"event":"server.slow_probe_attempt","server":"s","time":"2026-03-01T12:00:00.123Z","state":"slow_probe","n":3,"error":"x"}`},
		"recovered": {Event{Name: EventSlowProbeRecovered, Server: "s", Time: at, State: Connected, DownMs: &delay},
			`{"event":"server.slow_probe_recovered","server":"s","time":"2026-03-01T12:00:00.123Z","state":"connected","downMs":0}`},
		"attached": {Event{Name: EventSessionAttached, Time: at, PID: 9, Session: "s1", Client: &Client{Name: "c", Version: "1"}},
			`{"event":"session.attached","time":"2026-03-01T12:00:00.123Z","pid":9,"session":"s1","client":{"name":"c","version":"1"}}`},
		"reloaded": {Event{Name: EventConfigReloaded, Time: at, Added: []string{"a"}, Removed: []string{"b"}, Changed: []string{"c"}},
			`{"event":"config.reloaded","time":"2026-03-01T12:00:00.123Z","added":["a"],"removed":["b"],"changed":["c"]}`},
		"config error": {Event{Name: EventConfigError, Time: at, Message: "m"},
			`{"event":"config.error","time":"2026-03-01T12:00:00.123Z","message":"m"}`},
		"notified": {Event{Name: EventNotificationSent, Time: at, Title: "t"},
			`{"event":"notification.sent","time":"2026-03-01T12:00:00.123Z","title":"t"}`},
	}
	for name, test := range tests {
		got, err := json.Marshal(test.event)
		if err != nil || string(got) != test.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", name, got, err, test.want)
		}
	}
}
