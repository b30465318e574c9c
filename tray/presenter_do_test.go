package tray

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-funnel/core/status"
)

func TestPresenterPostsNotices(t *testing.T) {
	runStage(t, func(s *stage) {
		s.board.SetServer(probing("github", "gone"))
		time.Sleep(5 * time.Second)
		s.board.SetServer(up("github", 1))
		time.Sleep(5 * time.Second)
		got := s.posted()
		if len(got) != 2 || got[0].Title != "github: slow probe" || got[1].Title != "github recovered" {
			t.Errorf("notices %+v", got)
		}
	})
}

// A fault is told after it lasted, without anything happening in between.
func TestPresenterWakesForNotices(t *testing.T) {
	runStage(t, func(s *stage) {
		s.mu.Lock()
		s.policy.After = 10 * time.Second
		s.mu.Unlock()
		s.board.SetServer(status.Server{Name: "github", State: status.Reconnecting, Enabled: true})
		time.Sleep(11 * time.Second)
		if n := len(s.posted()); n != 0 {
			t.Errorf("%d notices before", n)
		}
		time.Sleep(2 * time.Second)
		if got := s.posted(); len(got) != 1 || got[0].Title != "github is reconnecting" {
			t.Errorf("notices %+v", got)
		}
		_, before := s.view.last()
		time.Sleep(24 * time.Hour)
		if _, n := s.view.last(); n != before {
			t.Errorf("%d pictures in a day without news", n-before)
		}
	})
}

// C117: ten servers fail within a second and return after forty.
func TestC117_TenFaultsAreOneNotice(t *testing.T) {
	runStage(t, func(s *stage) {
		s.mu.Lock()
		s.policy.After = 10 * time.Second
		s.mu.Unlock()
		set := func(state status.State) {
			for i := range 10 {
				s.board.SetServer(status.Server{Name: fmt.Sprint("s", i), State: state, Enabled: true, Tools: 1})
				time.Sleep(100 * time.Millisecond)
			}
		}
		set(status.Connected)
		set(status.Reconnecting)
		time.Sleep(39 * time.Second)
		set(status.Connected)
		time.Sleep(time.Hour)
		got := s.posted()
		if len(got) != 2 || got[0].Title != "10 servers are reconnecting" || got[0].Body != "s0, s1, s2 and 7 more." ||
			got[1].Title != "10 servers recovered" || got[1].Key != got[0].Key {
			t.Errorf("notices %+v", got)
		}
	})
}

func TestPresenterChangesSettings(t *testing.T) {
	runStage(t, func(s *stage) {
		ticks := func() (autostart, notifications bool) {
			time.Sleep(time.Second)
			m, _ := s.view.last()
			return m.autostart.on, m.notifications.on
		}
		if a, n := ticks(); a || !n {
			t.Errorf("at first: %v, %v", a, n)
		}
		s.view.click <- click{entry: entryAutostart}
		s.view.click <- click{entry: entryNotifications}
		if a, n := ticks(); !a || n {
			t.Errorf("after a click on each: %v, %v", a, n)
		}
		s.board.SetServer(probing("github", "gone"))
		time.Sleep(time.Minute)
		if got := s.posted(); len(got) != 1 || got[0].Title != "" || len(got[0].Closes) == 0 {
			t.Errorf("notices without the tick, besides one that closes: %+v", got)
		}
		s.view.click <- click{entry: entryAutostart}
		s.view.click <- click{entry: entryNotifications}
		if a, n := ticks(); a || !n {
			t.Errorf("after another: %v, %v", a, n)
		}
		if got := s.posted(); len(got) != 2 || got[1].Title == "" {
			t.Errorf("a fault that outlasted the time without the tick is told: %+v", got)
		}
		s.mu.Lock()
		s.policy.Enabled = false
		s.mu.Unlock()
		s.board.SetServer(up("github", 1))
		time.Sleep(time.Second)
		if m, _ := s.view.last(); !m.notifications.fixed {
			t.Error("what the configuration has switched off can be switched on")
		}
		s.view.click <- click{entry: entryNotifications}
		if _, n := ticks(); n || s.noTick {
			t.Error("it was")
		}
	})
}

func TestPresenterOpensFiles(t *testing.T) {
	runStage(t, func(s *stage) {
		s.board.SetServer(up("files", 1))
		s.board.SetServer(up("github", 1))
		time.Sleep(time.Second)
		if err := os.WriteFile(filepath.Join(s.dir, "github.log"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		do := func(c click) {
			s.view.click <- c
			synctest.Wait()
		}
		do(click{entryShowLog, 1})
		do(click{entryShowLog, 0}) // it has no log
		do(click{entry: entryEditConfig})
		config := filepath.Join(s.dir, "config", "config.json")
		if content, err := os.ReadFile(config); err != nil || string(content) != emptyConfig {
			t.Errorf("the new configuration: %q, %v", content, err)
		}
		if err := os.WriteFile(config, []byte("{ mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.openErr = errors.New("no program for it")
		do(click{entry: entryEditConfig})
		if content, err := os.ReadFile(config); err != nil || string(content) != "{ mine" {
			t.Errorf("the user's configuration became %q, %v", content, err)
		}
		s.asked <- noticeAction{entryShowLog, "github"}
		synctest.Wait()
		s.asked <- noticeAction{entryReconnect, "github"}
		synctest.Wait()
		want := []string{"open /github.log", "open /config/config.json", "open /config/config.json", "open /github.log", "reconnect github"}
		if got := s.controls.taken(); !slices.Equal(got, want) {
			t.Errorf("did %q, want %q", got, want)
		}
		var titles []string
		for _, n := range s.posted() {
			titles = append(titles, n.Title+": "+strings.ReplaceAll(n.Body, s.dir, ""))
		}
		want = []string{
			"Showing the log of files failed: files has not written anything yet: there is no /files.log",
			"Opening the configuration failed: no program for it",
			"Showing the log of github failed: no program for it",
			"Reconnecting github failed: no such server",
		}
		if diff := cmp.Diff(want, titles); diff != "" {
			t.Error(diff)
		}
	})
}

func TestPresenterRestarts(t *testing.T) {
	runStage(t, func(s *stage) {
		s.view.click <- click{entry: entryRestart} // nothing is offered yet
		s.view.open <- struct{}{}
		time.Sleep(time.Second)
		s.view.click <- click{entry: entryRestart}
		synctest.Wait()
		if got := s.controls.taken(); !slices.Equal(got, []string{"restart"}) {
			t.Errorf("did %q", got)
		}
	})
}

// Commands that hang are what a user would quit for.
func TestQuitIsNotHeldUpByCommands(t *testing.T) {
	runStage(t, func(s *stage) {
		s.board.SetServer(up("slow", 1))
		time.Sleep(time.Second)
		for range commandsAtOnce + 1 {
			s.view.click <- click{entry: entryReconnect}
		}
		s.view.click <- click{entry: entryQuit}
		synctest.Wait()
		got := s.controls.taken()
		if len(got) != commandsAtOnce+1 || !slices.Contains(got, "quit") {
			t.Errorf("did %q", got)
		}
	})
}

// The user opens the menu and changes a setting while the measurement for that is under
// way: what it has found is of before.
func TestTickIsReadAgainAfterAClick(t *testing.T) {
	runStage(t, func(s *stage) {
		s.view.open <- struct{}{}
		time.Sleep(10 * time.Millisecond)
		s.view.click <- click{entry: entryAutostart}
		time.Sleep(time.Minute)
		if m, _ := s.view.last(); !m.autostart.on || s.measured != 1 {
			t.Errorf("the tick is %+v after %d measurements", m.autostart, s.measured)
		}
		s.view.click <- click{entry: entryAutostart}
		s.view.open <- struct{}{}
		time.Sleep(time.Minute)
		if m, _ := s.view.last(); m.autostart.on || s.measured != 2 {
			t.Errorf("opened while the setting is read: the tick is %+v after %d measurements", m.autostart, s.measured)
		}
	})
}
