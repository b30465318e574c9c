package tray

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-funnel/assets"
	"mcp-funnel/core/status"
)

var update = flag.Bool("update", false, "write the golden files anew")

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func in(d time.Duration) status.Time { return status.At(noon.Add(d)) }

func up(name string, tools int) status.Server {
	return status.Server{Name: name, State: status.Connected, Tools: tools, Enabled: true}
}

func probing(name, lastError string) status.Server {
	return status.Server{Name: name, State: status.SlowProbe, LastError: lastError, Enabled: true}
}

// picture presents servers to a tray that has not shown anything.
func picture(servers ...status.Server) model {
	m, _, _ := present(moment{snapshot: status.Snapshot{Servers: servers}, now: noon}, memory{})
	return m
}

// outline writes a model as text, for golden files.
func outline(m model) string {
	var b strings.Builder
	fmt.Fprintf(&b, "icon     %s\ntooltip  %s\nsummary  %s\nproblem  %s\n", m.icon, m.tooltip, m.summary, m.problem)
	for _, r := range m.rows {
		fmt.Fprintf(&b, "row      %s | %s\n         reconnect %v, enabled %v, error %q, facts %q\n",
			r.label, r.icon, r.reconnect, r.enabled, r.err, r.facts)
	}
	fmt.Fprintf(&b, "reconnect all %v\nsessions %s\n", m.reconnectAll, m.sessions)
	for _, line := range m.sessionLines {
		fmt.Fprintf(&b, "         %s\n", line)
	}
	fmt.Fprintf(&b, "ticks    %+v %+v\nrestart  %v\n", m.autostart, m.notifications, m.restart)
	return b.String()
}

// fleet is n servers that work.
func fleet(n int) []status.Server {
	var all []status.Server
	for i := range n {
		s := up(fmt.Sprintf("s%02d", i), i)
		s.Since = in(-time.Duration(i) * time.Hour)
		all = append(all, s)
	}
	return all
}

func TestPresentGolden(t *testing.T) {
	every := []status.Server{
		{Name: "off", State: status.Disabled},
		{Name: "unused", State: status.Idle, Enabled: true},
		{Name: "fine", State: status.Connected, Tools: 26, Enabled: true},
		{Name: "small", State: status.Connected, Tools: 1, LastError: "got over", Enabled: true},
		{Name: "new", State: status.Connecting, Enabled: true},
		{
			Name: "shaky", State: status.Reconnecting, Attempt: 3, MaxAttempts: 10, NextAttemptAt: in(17 * time.Second),
			LastError: "the process exited\nwith code 1", Enabled: true, Tools: 4,
		},
		{Name: "locked", State: status.NeedsAuth, LastError: "the server answered 401", Enabled: true},
		{Name: "github", State: status.SlowProbe, NextAttemptAt: in(40 * time.Second), LastError: "gone", Enabled: true},
		{Name: "typo", State: status.Invalid, LastError: "neither command nor url", Enabled: true},
		{Name: "future", State: "some later state", Enabled: true},
	}
	oneDown := fleet(5)
	oneDown[3] = probing("s03", "the process exited with code 1")
	allDown := []status.Server{
		probing("a", "gone"), {Name: "b", State: status.Reconnecting, Attempt: 1, MaxAttempts: 10, Enabled: true},
		{Name: "c", State: status.NeedsAuth, Enabled: true},
	}
	many := fleet(40)
	many[39].State, many[20].State = status.SlowProbe, status.NeedsAuth
	hostile := []status.Server{
		probing("<b>a</b>\nQuit \u202eevil & _x\x1b\x00", "<img src='http://127.0.0.1/'>\r\n\u2066x & y"),
		up("שרת עברי", 2), up(strings.Repeat("long ", 2000), 3),
		{Name: strings.Repeat("ü", 10000), State: status.Reconnecting, Attempt: 3, MaxAttempts: 10, NextAttemptAt: in(time.Minute), Enabled: true},
	}
	broken := status.Config{Path: "/home/u/.config/config.json", Error: "reading /home/u/.config/config.json:3:1: a comma is missing"}
	cases := map[string]status.Snapshot{
		"every state":                     {Servers: every},
		"no servers":                      {},
		"all disabled":                    {Servers: every[:1]},
		"all well":                        {Servers: every[2:4]},
		"one down of five":                {Servers: oneDown},
		"all down":                        {Servers: allDown},
		"forty servers":                   {Servers: many},
		"hostile names":                   {Servers: hostile, Sessions: []status.Session{{ID: "1", Client: status.Client{Name: "a\nb\u202e"}, CWD: strings.Repeat("/x", 5000)}}},
		"broken configuration":            {Servers: every[2:4], Config: broken},
		"broken configuration and server": {Servers: every[2:8], Config: broken},
		"broken configuration alone":      {Config: broken},
	}
	for name, snapshot := range cases {
		t.Run(name, func(t *testing.T) {
			m, _, _ := present(moment{snapshot: snapshot, now: noon, policy: Policy{Enabled: true}}, memory{})
			compareGolden(t, strings.ReplaceAll(name, " ", "_"), outline(m))
		})
	}
}

// The user opens the menu; meanwhile it is measured, states change, and later it is
// opened again.
func TestPresentGoldenWhileTheMenuIsOpen(t *testing.T) {
	sessions := []status.Session{
		{ID: "1", Client: status.Client{Name: "claude-code"}, CWD: "/home/u/src/app", Calls: 3},
		{ID: "2", CWD: "/" + strings.Repeat("deep/", 30) + "down"},
	}
	on := true
	measured := facts{
		Details:   Details{Memory: map[string]int64{"s00": 12_900_000, "s01": 300_000_000}, Sessions: []status.Session{{ID: "1", Calls: 1}, {ID: "2", Calls: 1}}},
		autostart: &on, updated: true,
	}
	changed := fleet(3)
	changed[2] = status.Server{Name: "s02", State: status.Reconnecting, Attempt: 1, MaxAttempts: 3, NextAttemptAt: in(30 * time.Second), Enabled: true}
	policy := Policy{Enabled: true}
	var b strings.Builder
	past := memory{}
	for _, step := range []struct {
		name string
		at   moment
	}{
		{"before", moment{snapshot: status.Snapshot{Servers: fleet(3)}, now: noon}},
		{"opened", moment{snapshot: status.Snapshot{Servers: fleet(3), Sessions: sessions}, now: noon.Add(time.Minute), opened: true}},
		{"measured", moment{snapshot: status.Snapshot{Servers: fleet(3), Sessions: sessions}, now: noon.Add(time.Minute), facts: measured}},
		{"one is lost", moment{snapshot: status.Snapshot{Servers: changed, Sessions: sessions[:1]}, now: noon.Add(3 * time.Minute), facts: measured, noTick: true}},
		{"opened again", moment{snapshot: status.Snapshot{Servers: changed}, now: noon.Add(4 * time.Minute), opened: true, facts: measured}},
	} {
		step.at.policy = policy
		step.at.policy.Enabled = !step.at.noTick
		var m model
		m, _, past = present(step.at, past)
		fmt.Fprintf(&b, "== %s\n%s", step.name, outline(m))
	}
	compareGolden(t, "menu_open", b.String())
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "present", name+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update to write it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the picture differs from %s (-want +got):\n%s", path, diff)
	}
}

func TestEveryStateHasAShape(t *testing.T) {
	want := map[status.State]assets.Shape{
		status.Disabled: assets.Ring, status.Idle: assets.Disc, status.Connecting: assets.OpenRing,
		status.Connected: assets.TickDisc, status.Reconnecting: assets.Triangle, status.NeedsAuth: assets.Key,
		status.SlowProbe: assets.Octagon, status.Invalid: assets.Octagon,
	}
	for _, s := range status.States() {
		if got := shape(s); got != want[s] {
			t.Errorf("%s: %s, want %s", s, got, want[s])
		}
	}
}

func TestDisabledServersDoNotCountForTheIcon(t *testing.T) {
	broken := probing("off", "gone")
	broken.Enabled = false
	if got := picture(up("files", 1), broken).icon; got != assets.TickDisc {
		t.Errorf("icon %s, want %s", got, assets.TickDisc)
	}
}

func TestRowsStayUntilTheMenuOpens(t *testing.T) {
	m := memory{}
	order := func(opened bool, servers ...status.Server) string {
		var shown model
		shown, _, m = present(moment{snapshot: status.Snapshot{Servers: servers}, now: noon, opened: opened}, m)
		var names []string
		for _, r := range shown.rows {
			if r.removed {
				r.server = "-"
			}
			names = append(names, r.server)
		}
		return strings.Join(names, " ")
	}
	steps := []struct {
		name    string
		opened  bool
		servers []status.Server
		want    string
	}{
		{"first picture: worst first", false, []status.Server{up("a", 1), probing("b", ""), up("c", 1)}, "b a c"},
		{"changed: as they stood", false, []status.Server{probing("a", ""), up("b", 1), up("c", 1)}, "b a c"},
		{"a new one: last", false, []status.Server{probing("n", ""), probing("a", ""), up("b", 1), up("c", 1)}, "b a c n"},
		{"one removed", false, []status.Server{probing("n", ""), probing("a", ""), up("c", 1)}, "- a c n"},
		{"another one: last", false, []status.Server{probing("a", ""), up("c", 1), up("x", 1)}, "- a c - x"},
		{"added again: where it was", false, []status.Server{up("c", 1), up("n", 1), up("b", 1), up("x", 1)}, "b - c n x"},
		{"all removed", false, nil, "- - - - -"},
		{"opened: worst first, then as configured", true, []status.Server{up("c", 1), probing("n", ""), probing("a", "")}, "n a c"},
	}
	for _, step := range steps {
		if got := order(step.opened, step.servers...); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
	}
}

// The user has a server's submenu open while another one is removed: a click is for the
// server that the submenu was opened for, or for none.
func TestClickDoesNotReachAnotherServer(t *testing.T) {
	present := func(m memory, opened bool, servers ...status.Server) (model, memory) {
		shown, _, next := present(moment{snapshot: status.Snapshot{Servers: servers}, now: noon, opened: opened}, m)
		return shown, next
	}
	a, b, c := up("a", 1), up("b", 1), up("c", 1)
	shown, m := present(memory{}, true, a, b, c)
	ask := func(row int, want string) {
		t.Helper()
		for _, entry := range []menuEntry{entryReconnect, entryEnabled, entryShowLog} {
			if got, ok := shown.command(click{entry, row}); ok != (want != "") || ok && got.server != want {
				t.Errorf("entry %d of row %d is for %q, %v; want %q", entry, row, got.server, ok, want)
			}
		}
	}
	ask(1, "b")
	shown, m = present(m, false, b, c)
	ask(0, "")
	ask(1, "b")
	ask(2, "c")
	shown, _ = present(m, true, b, c)
	ask(0, "b")
	ask(1, "c")
	ask(2, "")
}

func TestPresentIsPure(t *testing.T) {
	servers := []status.Server{up("a", 1), probing("b", ""), probing("c", "")}
	m := memory{order: []string{"a", "b", "c"}, tellings: tellings{
		servers: map[string]telling{"a": {told: status.SlowProbe, news: noon.Add(-gatherFor), shown: true}, "gone": {shown: true}},
		several: digest{kind: kindFault, first: noon, members: []string{"a", "b", "gone"}},
	}}
	before := fmt.Sprintf("%+v", m)
	at := moment{snapshot: status.Snapshot{Servers: servers}, now: noon, opened: true, policy: Policy{Enabled: true}}
	first, notices, next := present(at, m)
	again, noticesAgain, nextAgain := present(at, m)
	if outline(first) != outline(again) || !cmp.Equal(notices, noticesAgain) || len(notices) < 2 ||
		fmt.Sprintf("%+v", next) != fmt.Sprintf("%+v", nextAgain) {
		t.Error("a second call with the same arguments gave something else")
	}
	if servers[0].Name != "a" || fmt.Sprintf("%+v", m) != before {
		t.Error("an argument was changed")
	}
}

func TestWordsAreKeptUpWhileTheUserMayLook(t *testing.T) {
	for _, c := range []struct {
		left, lasts time.Duration
		want        string
	}{
		{-time.Second, 0, "trying now"},
		{time.Second, time.Second, "next try in a few seconds"},
		{10 * time.Second, 10 * time.Second, "next try in a few seconds"},
		{11 * time.Second, time.Second, "next try in 20 s"},
		{40 * time.Second, 10 * time.Second, "next try in 40 s"},
		{90 * time.Second, 10 * time.Second, "next try in 90 s"},
		{91 * time.Second, time.Second, "next try in 2 min"},
		{59*time.Minute + time.Second, time.Second, "next try in 60 min"},
	} {
		server := status.Server{Name: "x", State: status.SlowProbe, NextAttemptAt: in(c.left), Enabled: true}
		for opened, looking := range map[time.Time]bool{
			{}: false, noon: true, noon.Add(-looks + 1): true, noon.Add(-looks): false,
		} {
			m, _, next := present(moment{snapshot: status.Snapshot{Servers: []status.Server{up("a", 1), server}}, now: noon}, memory{opened: opened})
			if got := m.rows[0].label; got != "x: slow probe, "+c.want {
				t.Errorf("%v left: %q, want %q", c.left, got, c.want)
			}
			want := noon.Add(c.lasts)
			if c.lasts == 0 || !looking {
				want = time.Time{}
			}
			if !next.wake.Equal(want) {
				t.Errorf("%v left, opened %v: wakes at %v, want %v", c.left, opened, next.wake, want)
			}
		}
	}
}

func TestFactsChangeOnlyWhenTheMenuOpens(t *testing.T) {
	s := up("x", 1)
	s.Since = in(0)
	past, seen := memory{}, []string{}
	for _, step := range []struct {
		after  time.Duration
		opened bool
	}{{0, false}, {time.Minute, true}, {time.Hour, false}, {3 * time.Hour, true}, {72 * time.Hour, true}} {
		var m model
		m, _, past = present(moment{
			snapshot: status.Snapshot{Servers: []status.Server{s}}, now: noon.Add(step.after), opened: step.opened,
		}, past)
		seen = append(seen, m.rows[0].facts)
	}
	want := []string{"1 tool", "up 1 min, 1 tool", "up 1 min, 1 tool", "up 3 h, 1 tool", "up 3 days, 1 tool"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

func TestCommandOfAClick(t *testing.T) {
	m := picture(up("files", 1), status.Server{Name: "slack", State: status.Disabled})
	m.autostart = tick{title: autostartTitle, on: true}
	m.notifications = tick{title: notificationsTitle, fixed: true}
	for _, c := range []struct {
		click click
		want  command
		ok    bool
	}{
		{click{entryReconnect, 0}, command{entry: entryReconnect, server: "files"}, true},
		{click{entryReconnect, 1}, command{}, false}, // disabled
		{click{entryReconnect, 2}, command{}, false}, // hidden
		{click{entryReconnect, -1}, command{}, false},
		{click{entryEnabled, 0}, command{entry: entryEnabled, server: "files", on: false}, true},
		{click{entryEnabled, 1}, command{entry: entryEnabled, server: "slack", on: true}, true},
		{click{entryShowLog, 1}, command{entry: entryShowLog, server: "slack"}, true},
		{click{entryShowLog, 2}, command{}, false},
		{click{entryReconnectAll, 0}, command{entry: entryReconnectAll}, true},
		{click{entryEditConfig, 0}, command{entry: entryEditConfig}, true},
		{click{entryAutostart, 0}, command{entry: entryAutostart, on: false}, true},
		{click{entryNotifications, 0}, command{}, false}, // fixed
		{click{entryRestart, 0}, command{}, false},       // hidden
		{click{entryQuit, 0}, command{entry: entryQuit}, true},
	} {
		got, ok := m.command(c.click)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%+v: %+v, %v; want %+v, %v", c.click, got, ok, c.want, c.ok)
		}
	}
	for _, hidden := range []menuEntry{entryReconnectAll, entryAutostart, entryNotifications, entryRestart} {
		if _, ok := (model{}).command(click{entry: hidden}); ok {
			t.Errorf("entry %d of an empty menu is obeyed", hidden)
		}
	}
}
