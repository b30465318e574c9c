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
		fmt.Fprintf(&b, "row      %s | %s\n         reconnect %v, enabled %v, error %q\n", r.label, r.icon, r.reconnect, r.enabled, r.err)
	}
	fmt.Fprintf(&b, "reconnect all %v\n", m.reconnectAll)
	return b.String()
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
			LastError: "the process exited\nwith code 1", Enabled: true,
		},
		{Name: "locked", State: status.NeedsAuth, LastError: "the server answered 401", Enabled: true},
		{Name: "github", State: status.SlowProbe, NextAttemptAt: in(40 * time.Second), LastError: "gone", Enabled: true},
		{Name: "typo", State: status.Invalid, LastError: "neither command nor url", Enabled: true},
		{Name: "future", State: "some later state", Enabled: true},
	}
	cases := map[string]status.Snapshot{
		"every state":  {Servers: every},
		"no servers":   {},
		"all disabled": {Servers: every[:1]},
		"all well":     {Servers: every[2:4]},
		"broken configuration": {
			Servers: every[2:4], Config: status.Config{Error: "config.json:3:1: a comma is missing"},
		},
		"broken configuration and server": {
			Servers: every[2:8], Config: status.Config{Error: "config.json:3:1: a comma is missing"},
		},
		"broken configuration alone": {Config: status.Config{Error: "config.json:3:1: a comma is missing"}},
	}
	for name, snapshot := range cases {
		t.Run(name, func(t *testing.T) {
			m, _, _ := present(moment{snapshot: snapshot, now: noon}, memory{})
			compareGolden(t, strings.ReplaceAll(name, " ", "_"), outline(m))
		})
	}
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "present", name+".txt")
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
		{"one removed", false, []status.Server{probing("n", ""), probing("a", ""), up("c", 1)}, "a c n"},
		{"opened: worst first, then as configured", true, []status.Server{up("c", 1), probing("n", ""), probing("a", "")}, "n a c"},
	}
	for _, step := range steps {
		if got := order(step.opened, step.servers...); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
	}
}

func TestNotices(t *testing.T) {
	auth := status.Server{Name: "x", State: status.NeedsAuth, LastError: "401", Enabled: true}
	in := func(s status.State) status.Server { return status.Server{Name: "x", State: s, Enabled: true} }
	fault, login, well := "x: slow probe", "x needs a log-in", "x recovered"
	type step struct {
		server status.Server
		quiet  bool
		want   string // titles
	}
	cases := map[string][]step{
		"fault and recovery": {{server: probing("x", "gone"), want: fault}, {server: up("x", 1), want: well}, {server: up("x", 1)}},
		"told once":          {{server: probing("x", "gone"), want: fault}, {server: probing("x", "gone again")}},
		"probe under way": {
			{server: probing("x", "gone"), want: fault},
			{server: in(status.Connecting)},
			{server: probing("x", "gone")},
			{server: in(status.Reconnecting)},
			{server: up("x", 1), want: well},
		},
		"a second fault":      {{server: probing("x", ""), want: fault}, {server: up("x", 1), want: well}, {server: probing("x", ""), want: fault}},
		"never in slow probe": {{server: in(status.Reconnecting)}, {server: up("x", 1)}},
		"log-in":              {{server: auth, want: login}, {server: auth}, {server: up("x", 1), want: well}},
		"from fault to log-in": {
			{server: probing("x", ""), want: fault}, {server: auth, want: login}, {server: up("x", 1), want: well},
		},
		"disabled meanwhile": {{server: probing("x", ""), want: fault}, {server: in(status.Disabled)}, {server: up("x", 1)}},
		"fault not shown":    {{server: probing("x", ""), quiet: true}, {server: up("x", 1)}},
		"shown late":         {{server: probing("x", ""), quiet: true}, {server: probing("x", ""), want: fault}},
		"recovery not shown": {{server: probing("x", ""), want: fault}, {server: up("x", 1), quiet: true}, {server: up("x", 1)}},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			m := memory{}
			for i, s := range steps {
				var notices []Notice
				_, notices, m = present(moment{
					snapshot: status.Snapshot{Servers: []status.Server{s.server}}, now: noon, quiet: s.quiet,
				}, m)
				var titles []string
				for _, n := range notices {
					titles = append(titles, n.Title)
					if n.Key != "server x" || n.Server != "x" || n.State != s.server.State {
						t.Errorf("step %d: key %q, server %q, state %q", i, n.Key, n.Server, n.State)
					}
				}
				if got := strings.Join(titles, ", "); got != s.want {
					t.Errorf("step %d: notices %q, want %q", i, got, s.want)
				}
			}
		})
	}
}

func TestConfigurationErrorIsToldOnce(t *testing.T) {
	m := memory{}
	told := func(config string, quiet bool) int {
		var notices []Notice
		_, notices, m = present(moment{
			snapshot: status.Snapshot{Config: status.Config{Error: config}}, now: noon, quiet: quiet,
		}, m)
		for _, n := range notices {
			if n.Title != "Configuration error" || n.Body != config {
				t.Errorf("notice %q: %q", n.Title, n.Body)
			}
		}
		return len(notices)
	}
	for i, step := range []struct {
		config string
		quiet  bool
		want   int
	}{
		{"", false, 0}, {"a comma is missing", true, 0}, {"a comma is missing", false, 1}, {"a brace is missing", false, 0},
		{"", false, 0}, {"a comma is missing", false, 1},
	} {
		if got := told(step.config, step.quiet); got != step.want {
			t.Errorf("step %d: %d notices, want %d", i, got, step.want)
		}
	}
}

func TestPresentIsPure(t *testing.T) {
	servers := []status.Server{up("a", 1), probing("b", "")}
	m := memory{order: []string{"a", "b"}, told: map[string]status.State{"a": status.SlowProbe}}
	at := moment{snapshot: status.Snapshot{Servers: servers}, now: noon, opened: true}
	first, notices, _ := present(at, m)
	again, noticesAgain, _ := present(at, m)
	if outline(first) != outline(again) || len(notices) != len(noticesAgain) || len(notices) != 2 {
		t.Error("a second call with the same arguments gave something else")
	}
	if servers[0].Name != "a" || m.order[0] != "a" || len(m.told) != 1 {
		t.Error("an argument was changed")
	}
}

func TestPictureWakesWhenItsWordsGetOld(t *testing.T) {
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
		m, _, next := present(moment{snapshot: status.Snapshot{Servers: []status.Server{up("a", 1), server}}, now: noon}, memory{})
		if got := m.rows[0].label; got != "x: slow probe, "+c.want {
			t.Errorf("%v left: %q, want %q", c.left, got, c.want)
		}
		want := noon.Add(c.lasts)
		if c.lasts == 0 {
			want = time.Time{}
		}
		if !next.wake.Equal(want) {
			t.Errorf("%v left: wakes at %v, want %v", c.left, next.wake, want)
		}
	}
}

func TestCommandOfAClick(t *testing.T) {
	m := picture(up("files", 1), status.Server{Name: "slack", State: status.Disabled})
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
		{click{entryReconnectAll, 0}, command{entry: entryReconnectAll}, true},
		{click{entryQuit, 0}, command{entry: entryQuit}, true},
	} {
		got, ok := m.command(c.click)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%+v: %+v, %v; want %+v, %v", c.click, got, ok, c.want, c.ok)
		}
	}
	if _, ok := (model{}).command(click{entry: entryReconnectAll}); ok {
		t.Error("Reconnect all without a server")
	}
}
