package tray

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcp-funnel/core/status"
)

type notifierFunc func(ctx context.Context, n Notice) error

func (f notifierFunc) Notify(ctx context.Context, n Notice) error { return f(ctx, n) }

// runCourier runs a courier in a bubble while act acts.
func runCourier(t *testing.T, notify notifierFunc, act func(c *courier, events *status.Events, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		events := status.NewEvents(64, nil)
		var log bytes.Buffer
		c := newCourier(notify, events, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.run(ctx)
		}()
		act(c, events, &log)
		cancel()
		<-done
	})
}

func hang(ctx context.Context, _ Notice) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// C116: a notification is dropped after two seconds, and nothing piles up.
func TestC116_CourierDropsWhatIsNotTaken(t *testing.T) {
	var calls atomic.Int32
	notify := func(ctx context.Context, n Notice) error {
		calls.Add(1)
		return hang(ctx, n)
	}
	runCourier(t, notify, func(c *courier, events *status.Events, log *bytes.Buffer) {
		start := time.Now()
		for i := range 100 {
			c.post(Notice{Key: fmt.Sprint(i), Title: "t"})
		}
		if time.Since(start) != 0 {
			t.Error("posting waited")
		}
		synctest.Wait()
		time.Sleep(noticeDeadline * (noticesWaiting + 2))
		synctest.Wait()
		if n := calls.Load(); n > noticesWaiting+1 {
			t.Errorf("%d notices tried, at most %d can wait", n, noticesWaiting)
		}
		if len(c.waiting) != 0 {
			t.Errorf("%d notices still wait", len(c.waiting))
		}
		if events.Last() != 0 {
			t.Error("an event for a notice that was not shown")
		}
		if n := strings.Count(log.String(), "notification not shown"); n != 1 {
			t.Errorf("%d warnings, want one for the whole row of failures", n)
		}
	})
}

func TestCourierKeepsTheNewest(t *testing.T) {
	c := newCourier(notifierFunc(hang), status.NewEvents(1, nil), slog.New(slog.DiscardHandler))
	for i := range noticesWaiting + 3 {
		c.post(Notice{Key: fmt.Sprint(i), Title: "t"})
	}
	if first, _ := c.take(); first.Key != "3" {
		t.Errorf("the oldest left is %q, want 3", first.Key)
	}
	c.post(Notice{Key: "5", Title: "newer"})
	n, count := Notice{Title: "t"}, 0
	for next, ok := c.take(); ok; next, ok = c.take() {
		n = next
		count++
	}
	if n.Title != "newer" || count != noticesWaiting-1 {
		t.Errorf("last of %d is %+v; an older notice with the same key was not replaced", count, n)
	}
}

func TestCourierDropsWhatIsClosedBeforeItWasShown(t *testing.T) {
	c := newCourier(notifierFunc(hang), status.NewEvents(1, nil), slog.New(slog.DiscardHandler))
	c.post(Notice{Key: "a", Title: "a", Closes: []string{"x"}})
	c.post(Notice{Key: "b", Title: "b"})
	c.post(Notice{Closes: []string{"a"}})
	c.post(Notice{Closes: []string{"y"}})
	c.post(Notice{Key: "b", Title: "newer", Closes: []string{"z"}})
	var got []string
	for n, ok := c.take(); ok; n, ok = c.take() {
		got = append(got, fmt.Sprintf("%q closes %q", n.Title, n.Closes))
	}
	want := []string{`"" closes ["a" "x"]`, `"" closes ["y"]`, `"newer" closes ["z"]`}
	if !slices.Equal(got, want) {
		t.Errorf("waiting: %q, want %q", got, want)
	}
}

func TestCourierTellsOfWhatWasShown(t *testing.T) {
	failing := true
	notify := func(context.Context, Notice) error {
		if failing {
			return errors.New("no server")
		}
		return nil
	}
	runCourier(t, notify, func(c *courier, events *status.Events, log *bytes.Buffer) {
		c.post(Notice{Title: "lost"})
		synctest.Wait()
		failing = false
		c.post(Notice{Title: "x: slow probe", Server: "x", State: status.SlowProbe})
		synctest.Wait()
		got, _, _, err := events.Next(t.Context(), 0)
		if err != nil || len(got) != 1 {
			t.Fatalf("events %+v, %v", got, err)
		}
		if e := got[0]; e.Name != "notification.sent" || e.Title != "x: slow probe" || e.Server != "x" || e.State != status.SlowProbe {
			t.Errorf("event %+v", e)
		}
		failing = true
		c.post(Notice{Title: "lost"})
		synctest.Wait()
		if n := strings.Count(log.String(), "level=WARN"); n != 2 {
			t.Errorf("%d warnings, want 2: it had worked in between", n)
		}
	})
}

func TestFallbackHangsInOneGoroutineOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thaw := make(chan struct{})
		var sent atomic.Int32
		f := newFallback()
		f.send = func(string, string, []byte) error {
			sent.Add(1)
			<-thaw
			return nil
		}
		for i := range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), noticeDeadline)
			start := time.Now()
			err := f.Notify(ctx, Notice{Title: "t"})
			cancel()
			if err == nil || i == 0 && !errors.Is(err, context.DeadlineExceeded) || i > 0 && !errors.Is(err, errFallbackBusy) {
				t.Fatalf("notice %d: %v", i, err)
			}
			if d := time.Since(start); d > noticeDeadline {
				t.Errorf("notice %d took %v", i, d)
			}
		}
		if n := sent.Load(); n != 1 {
			t.Errorf("%d calls are hanging", n)
		}
		close(thaw)
		synctest.Wait()
		if err := f.Notify(t.Context(), Notice{Title: "t"}); err != nil {
			t.Errorf("after the desktop came back: %v", err)
		}
	})
}

func TestFallbackTakesTextsAsTheyAre(t *testing.T) {
	var title, body string
	f := newFallback()
	f.send = func(t, b string, _ []byte) error {
		title, body = t, b
		return errors.New("nobody there")
	}
	if err := f.Notify(t.Context(), Notice{Title: "--help", Body: "<b>x</b>"}); err == nil {
		t.Error("the error was lost")
	}
	if title != " --help" || body != "‹b›x‹/b›" {
		t.Errorf("sent %q, %q", title, body)
	}
}

// What is dropped for want of room leaves nothing on the screen that it would have
// closed or replaced.
func TestCourierClosesForWhatItDrops(t *testing.T) {
	c := newCourier(notifierFunc(hang), status.NewEvents(1, nil), slog.New(slog.DiscardHandler))
	c.post(Notice{Closes: []string{"x"}})
	c.post(Notice{Key: "a", Title: "a", Closes: []string{"y"}})
	for i := range noticesWaiting {
		c.post(Notice{Key: fmt.Sprint(i), Title: "t"})
	}
	if first, _ := c.take(); first.Key != "0" || !slices.Equal(first.Closes, []string{"x", "y", "a"}) || len(c.waiting) != noticesWaiting-1 {
		t.Errorf("the oldest left is %+v, and %d more", first, len(c.waiting))
	}
}

// A notice that takes over what an older one was to close does not close what was told
// in between.
func TestCourierKeepsWhatIsNewerThanItsClosing(t *testing.T) {
	c := newCourier(notifierFunc(hang), status.NewEvents(1, nil), slog.New(slog.DiscardHandler))
	c.post(Notice{Key: "several", Title: "3 servers", Closes: []string{"server a", "server b"}})
	c.post(Notice{Key: "server a", Title: "a recovered"})
	c.post(Notice{Key: "several", Title: "3 servers recovered"})
	var got []string
	for n, ok := c.take(); ok; n, ok = c.take() {
		got = append(got, fmt.Sprintf("%s closes %q", n.Title, n.Closes))
	}
	if want := []string{`a recovered closes []`, `3 servers recovered closes ["server b"]`}; !slices.Equal(got, want) {
		t.Errorf("waiting: %q, want %q", got, want)
	}
}
