package tray

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-funnel/core/status"
)

// fakeView remembers what it was made to show.
type fakeView struct {
	click chan click
	open  chan struct{}

	mu    sync.Mutex
	shown []model
	times []time.Time
}

func newFakeView() *fakeView { return &fakeView{click: make(chan click), open: make(chan struct{})} }

func (v *fakeView) clicks() <-chan click    { return v.click }
func (v *fakeView) opened() <-chan struct{} { return v.open }

func (v *fakeView) show(m model) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shown = append(v.shown, m)
	v.times = append(v.times, time.Now())
}

func (v *fakeView) last() (model, int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shown[len(v.shown)-1], len(v.shown)
}

// fakeControls records commands; those for "slow" take until they are cancelled.
type fakeControls struct {
	mu    sync.Mutex
	calls []string
}

func (f *fakeControls) record(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func (f *fakeControls) taken() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func (f *fakeControls) Reconnect(ctx context.Context, name string) error {
	f.record("reconnect %s", name)
	if name == "slow" {
		<-ctx.Done()
		return ctx.Err()
	}
	return errors.New("no such server")
}

func (f *fakeControls) ReconnectAll(context.Context) error {
	f.record("reconnect all")
	return nil
}

func (f *fakeControls) SetEnabled(_ context.Context, name string, on bool) error {
	f.record("enable %s %v", name, on)
	return nil
}

func (f *fakeControls) Quit() { f.record("quit") }

// stage is a presenter at work.
type stage struct {
	board    *status.Board
	view     *fakeView
	controls *fakeControls
	asked    chan noticeAction
	dir      string
	log      bytes.Buffer

	mu       sync.Mutex
	policy   Policy
	noTick   bool
	notices  []Notice
	measured int
	openErr  error
}

func (s *stage) post(n Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices = append(s.notices, n)
}

func (s *stage) posted() []Notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.notices)
}

// switchFunc is a switch that is told what to be.
type switchFunc func(on *bool) bool

func (f switchFunc) On() bool          { return f(nil) }
func (f switchFunc) Set(on bool) error { f(&on); return nil }

// notifications is the tick for them.
func (s *stage) notifications(on *bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on != nil {
		s.noTick = !*on
	}
	return !s.noTick
}

func (s *stage) options() Options {
	autostart := false
	var mu sync.Mutex
	return Options{
		Board: s.board, Controls: s.controls, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		Notifications: switchFunc(s.notifications),
		Autostart: switchFunc(func(on *bool) bool {
			mu.Lock()
			defer mu.Unlock()
			if on != nil {
				autostart = *on
				s.controls.record("autostart %v", *on)
			}
			return autostart
		}),
		Details: func(context.Context) Details {
			time.Sleep(100 * time.Millisecond) // it takes a moment
			s.mu.Lock()
			defer s.mu.Unlock()
			s.measured++
			return Details{Memory: map[string]int64{"files": int64(s.measured) << 20}}
		},
		LogPath:    func(server string) string { return filepath.Join(s.dir, server+".log") },
		ConfigPath: filepath.Join(s.dir, "config", "config.json"),
		Updated:    func() bool { return true },
		Restart:    func(context.Context) error { s.controls.record("restart"); return nil },
		Open: func(_ context.Context, path string) error {
			s.controls.record("open %s", strings.TrimPrefix(path, s.dir))
			return s.openErr
		},
	}
}

// runStage runs a presenter in a bubble while act acts.
func runStage(t *testing.T, act func(*stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{
			board: status.NewBoard(), view: newFakeView(), controls: &fakeControls{}, asked: make(chan noticeAction),
			dir: t.TempDir(), policy: Policy{Enabled: true},
		}
		p := &presenter{
			o: s.options(), view: s.view, asked: s.asked, post: s.post,
			policy: func() (Policy, bool) {
				ticked := s.notifications(nil)
				s.mu.Lock()
				defer s.mu.Unlock()
				policy := s.policy
				policy.Enabled = policy.Enabled && ticked
				return policy, ticked
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.run(ctx)
		}()
		time.Sleep(time.Second) // the settings have been read
		synctest.Wait()
		act(s)
		cancel()
		<-done
	})
}

func TestPresenterShowsTheFirstPictureAtOnce(t *testing.T) {
	runStage(t, func(s *stage) {
		if m, n := s.view.last(); n > 2 || m.summary != "No servers configured" || s.view.times[0].Add(time.Second) != time.Now() {
			t.Errorf("%d pictures, the first at %v, the last says %q", n, s.view.times[0], m.summary)
		}
	})
}

func TestPresenterShowsAtMostFourPicturesASecond(t *testing.T) {
	runStage(t, func(s *stage) {
		start := time.Now()
		for i := range 1000 {
			s.board.SetServer(up("files", i))
			time.Sleep(3 * time.Millisecond)
		}
		time.Sleep(time.Second)
		m, n := s.view.last()
		if want := int(time.Since(start)/refreshEvery) + 1; n > want {
			t.Errorf("%d pictures, at most %d wanted", n, want)
		}
		if m.rows[0].label != "files: connected, 999 tools" {
			t.Errorf("the last picture says %q", m.rows[0].label)
		}
		for i := 1; i < len(s.view.times); i++ {
			if d := s.view.times[i].Sub(s.view.times[i-1]); d < refreshEvery {
				t.Errorf("%v between pictures %d and %d", d, i-1, i)
			}
		}
	})
}

// The count-down goes on only while the user may be looking.
func TestPresenterCountsDownWhenTheMenuWasOpened(t *testing.T) {
	runStage(t, func(s *stage) {
		server := probing("github", "gone")
		server.NextAttemptAt = status.At(time.Now().Add(25 * time.Second))
		s.board.SetServer(server)
		time.Sleep(time.Second)
		s.view.open <- struct{}{}
		var labels []string
		for range 30 {
			time.Sleep(time.Second)
			synctest.Wait()
			m, _ := s.view.last()
			if label := m.rows[0].label; len(labels) == 0 || label != labels[len(labels)-1] {
				labels = append(labels, label)
			}
		}
		want := []string{
			"github: slow probe, next try in 30 s", "github: slow probe, next try in 20 s",
			"github: slow probe, next try in a few seconds", "github: slow probe, trying now",
		}
		if !slices.Equal(labels, want) {
			t.Errorf("labels %q, want %q", labels, want)
		}
		time.Sleep(looks)
		server.NextAttemptAt = status.At(time.Now().Add(55 * time.Second))
		s.board.SetServer(server)
		time.Sleep(time.Second)
		_, before := s.view.last()
		time.Sleep(time.Minute)
		if m, n := s.view.last(); n != before {
			t.Errorf("%d pictures although nobody looks, the last says %q", n-before, m.rows[0].label)
		}
	})
}

// Memory and the like are measured when the menu opens, and only then.
func TestPresenterMeasuresWhenTheMenuOpens(t *testing.T) {
	runStage(t, func(s *stage) {
		facts := func() string {
			synctest.Wait()
			m, _ := s.view.last()
			return m.rows[0].facts
		}
		s.board.SetServer(up("files", 1))
		time.Sleep(time.Hour)
		if m, _ := s.view.last(); facts() != "1 tool" || m.restart || m.autostart != (tick{title: autostartTitle}) {
			t.Errorf("before: %q, %+v, restart %v", facts(), m.autostart, m.restart)
		}
		s.view.open <- struct{}{}
		s.view.open <- struct{}{} // some panels tell twice
		time.Sleep(time.Second)
		if m, _ := s.view.last(); facts() != "1.0 MiB, 1 tool" || !m.restart {
			t.Errorf("opened: %q, restart %v", facts(), m.restart)
		}
		s.board.SetServer(up("files", 2))
		time.Sleep(time.Hour)
		if facts() != "1.0 MiB, 2 tools" {
			t.Errorf("later: %q", facts())
		}
		s.view.open <- struct{}{}
		time.Sleep(time.Second)
		if facts() != "2.0 MiB, 2 tools" || s.measured != 2 {
			t.Errorf("opened again: %q after %d measurements", facts(), s.measured)
		}
	})
}

func TestPresenterRestsWhenNothingHappens(t *testing.T) {
	runStage(t, func(s *stage) {
		s.board.SetServer(up("files", 1))
		time.Sleep(time.Second)
		_, before := s.view.last()
		time.Sleep(24 * time.Hour)
		if _, n := s.view.last(); n != before {
			t.Errorf("%d pictures in a day without news", n-before)
		}
	})
}

func TestPresenterSortsWhenTheMenuOpens(t *testing.T) {
	runStage(t, func(s *stage) {
		s.board.SetServer(up("a", 1))
		time.Sleep(time.Second)
		s.board.SetServer(probing("b", "gone"))
		time.Sleep(time.Second)
		if m, _ := s.view.last(); m.rows[0].server != "a" {
			t.Error("the rows changed places with the menu perhaps open")
		}
		s.view.open <- struct{}{}
		synctest.Wait()
		if m, _ := s.view.last(); m.rows[0].server != "b" {
			t.Error("not sorted at once when the menu opened")
		}
		s.board.SetServer(up("b", 1))
		time.Sleep(time.Second)
		if m, _ := s.view.last(); m.rows[0].server != "b" {
			t.Error("sorted again although the menu did not open again")
		}
	})
}

func TestPresenterCarriesOutClicks(t *testing.T) {
	runStage(t, func(s *stage) {
		s.board.SetServer(up("slow", 1))
		s.board.SetServer(up("files", 1))
		time.Sleep(time.Second)
		for _, c := range []click{
			{entryReconnect, 0}, {entryReconnect, 1}, {entryReconnect, 7}, {entryEnabled, 1}, {entryReconnectAll, 0}, {entryQuit, 0},
		} {
			s.view.click <- c
			synctest.Wait()
		}
		want := []string{"reconnect slow", "reconnect files", "enable files false", "reconnect all", "quit"}
		if got := s.controls.taken(); !slices.Equal(got, want) {
			t.Errorf("commands %q, want %q", got, want)
		}
		if n := strings.Count(s.log.String(), "menu command failed"); n != 1 {
			t.Errorf("%d failures logged, want the one of files:\n%s", n, s.log.String())
		}
		s.board.SetServer(up("files", 2)) // a slow command holds up nothing
		time.Sleep(time.Second)
		if m, _ := s.view.last(); m.rows[1].label != "files: connected, 2 tools" {
			t.Errorf("the menu says %q", m.rows[1].label)
		}
	})
}

func TestPresenterBoundsCommands(t *testing.T) {
	runStage(t, func(s *stage) {
		s.board.SetServer(up("slow", 1))
		time.Sleep(time.Second)
		for range 100 {
			s.view.click <- click{entryReconnect, 0}
		}
		synctest.Wait()
		if n := len(s.controls.taken()); n >= commandsAtOnce+1 || n == 0 {
			t.Errorf("%d commands at once", n)
		}
	})
}
