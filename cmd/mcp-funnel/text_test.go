package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-funnel/core"
	"mcp-funnel/core/status"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                           "0 s",
		620 * time.Millisecond:                 "620 ms",
		1999 * time.Millisecond:                "2 s",
		119 * time.Second:                      "119 s",
		119*time.Second + 700*time.Millisecond: "2 min",
		3*time.Minute + 50*time.Second:         "3 min",
		65 * time.Minute:                       "1 h 5 min",
		49*time.Hour + 10*time.Minute:          "2 d 1 h",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
}

// What a server says cannot steer the terminal.
func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                        "plain",
		"two\nlines\r\n":               "two lines",
		"\x1b[31mred\x1b[0m\a":         "[31mred [0m",
		"a\u202etxt.exe":               "atxt.exe",
		"  \t wide   \u2028  spaces  ": "wide spaces",
		"żółć 日本":                      "żółć 日本",
	} {
		if got := oneLine(text); got != want {
			t.Errorf("oneLine(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"\n  first line\nsecond": "first line",
		"exactly10!":             "exactly10!",
		"eleven char":            "eleven ch…",
		"żółwie 日本語です":           "żółwie 日本…",
	} {
		if got := shorten(text, 10); got != want {
			t.Errorf("shorten(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestDescribeEvent(t *testing.T) {
	at := status.At(time.Date(2026, 12, 1, 15, 4, 5, 0, time.Local))
	for _, test := range []struct{ event, want string }{
		{`{"event":"server.connecting","server":"github","state":"connecting"}`, "server.connecting github"},
		{`{"event":"server.connected","server":"github","pid":7,"protocolVersion":"2025-11-25","tools":1}`,
			"server.connected github pid 7, MCP 2025-11-25, 1 tool"},
		{`{"event":"server.disconnected","server":"github","reason":"the process ended","exitCode":0}`,
			"server.disconnected github the process ended, exit code 0"},
		{`{"event":"server.reconnecting","server":"github","attempt":2,"maxAttempts":10,"nextRetryMs":2000,"error":"connection\nrefused"}`,
			"server.reconnecting github attempt 2 of 10, next try in 2 s: connection refused"},
		{`{"event":"server.slow_probe_started","server":"github","probeIntervalMs":60000,"error":"refused"}`,
			"server.slow_probe_started github one try every 60 s: refused"},
		{`{"event":"server.slow_probe_attempt","server":"github","n":3,"error":"refused"}`,
			"server.slow_probe_attempt github probe 3: refused"},
		{`{"event":"server.slow_probe_recovered","server":"github","downMs":180000}`,
			"server.slow_probe_recovered github after 3 min"},
		{`{"event":"server.disabled","server":"github","state":"disabled"}`, "server.disabled github"},
		{`{"event":"session.attached","session":"s1","client":{"name":"claude-code","version":"2"},"pid":8}`,
			"session.attached claude-code 2, pid 8, session s1"},
		{`{"event":"config.reloaded"}`, "config.reloaded no server changed"},
		{`{"event":"config.reloaded","added":["a","b"],"changed":["c"]}`, "config.reloaded added a, b; changed c"},
		{`{"event":"config.error","message":"config.json:1:2: no"}`, "config.error: config.json:1:2: no"},
		{`{"event":"notification.sent","title":"github recovered"}`, "notification.sent: github recovered"},
		{`{"event":"something.new","server":"github"}`, "something.new github"},
	} {
		var event status.Event
		if err := json.Unmarshal([]byte(test.event), &event); err != nil {
			t.Fatal(err)
		}
		event.Time = at
		if got, want := describeEvent(event), "15:04:05 "+test.want; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestDescribeStatus(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	report := core.Report{
		Version: "1.2.3", PID: 12, Mode: "tray", UptimeSeconds: 3700,
		Socket: "/run/user/1/mcp-funnel/funnel.sock", Config: "/home/me/config.json",
		ConfigError: "config.json:1:2: broken", ConfigWarnings: []string{"config.json:3:4: odd"},
		Tray: status.Tray{Reason: "no host for icons"}, ExposedTools: 9,
		Sessions: []status.Session{{
			ID: "s1", Client: status.Client{Name: "claude-code", Version: "2.1"}, PID: 77, CWD: "/home/me/src",
			ProtocolVersion: "2025-11-25", AttachedAt: status.At(now.Add(-5 * time.Minute)), Calls: 3,
		}},
		Servers: []status.Server{
			{Name: "fine", State: status.Connected, PID: 41, RSSBytes: 5 << 20, Tools: 4, LastError: "an old story"},
			{Name: "lost", State: status.Reconnecting, Attempt: 2, MaxAttempts: 10, NextAttemptAt: status.At(now.Add(4 * time.Second)),
				Tools: 5, Stale: true, LastError: "the process ended: exit code 1", StderrTail: "Traceback\n\x1b[1mKeyError: x\n"},
			{Name: "slow", State: status.SlowProbe, Attempt: 7, NextAttemptAt: status.At(now.Add(-time.Second)), LastError: "refused"},
			{Name: "off", State: status.Disabled, LastError: "an old story"},
			{Name: "per", State: status.Idle, Instances: []status.Instance{{Folder: "/home/me/src", State: status.Connected, PID: 5}}},
		},
	}
	want := `MCP Funnel 1.2.3, pid 12, tray, up 1 h 1 min

SERVER  STATE         ATTEMPT  NEXT TRY  PID  MEMORY   TOOLS
fine    connected     -        -         41   5.0 MiB  4
lost    reconnecting  2 of 10  in 4 s    -    -        5 (stale)
  the process ended: exit code 1
  its last line on stderr: [1mKeyError: x
slow    slow probe    probe 7  now       -    -        0
  refused
off     disabled      -        -         -    -        0
per     idle          -        -         -    -        0
  /home/me/src: connected, pid 5

SESSION  CLIENT           PID  PROTOCOL    CALLS  SINCE  FOLDER
s1       claude-code 2.1  77   2025-11-25  3      5 min  /home/me/src

Tray:    not shown: no host for icons
Tools:   clients see 9
Socket:  /run/user/1/mcp-funnel/funnel.sock
Config:  /home/me/config.json
  error: config.json:1:2: broken
  warning: config.json:3:4: odd
`
	if diff := cmp.Diff(want, describeStatus(report, now)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	empty := describeStatus(core.Report{Tray: status.Tray{Shown: true}}, now)
	for _, line := range []string{"No servers configured", "No sessions", "Tray:    shown"} {
		if !strings.Contains(empty, line+"\n") {
			t.Errorf("%q is missing in\n%s", line, empty)
		}
	}
}
