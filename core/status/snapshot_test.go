package status

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTimeIsRFC3339InUTCWithMilliseconds(t *testing.T) {
	east := time.FixedZone("east", 2*60*60)
	tests := map[string]struct {
		at   Time
		want string
	}{
		"whole seconds":   {At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), `"2026-03-01T12:00:00.000Z"`},
		"milliseconds":    {At(time.Date(2026, 3, 1, 12, 0, 0, 7_000_000, time.UTC)), `"2026-03-01T12:00:00.007Z"`},
		"cut, not raised": {At(time.Date(2026, 3, 1, 12, 0, 0, 999_999_999, time.UTC)), `"2026-03-01T12:00:00.999Z"`},
		"elsewhere":       {At(time.Date(2026, 3, 1, 1, 30, 0, 0, east)), `"2026-02-28T23:30:00.000Z"`},
		"never":           {Time{}, `null`},
	}
	for name, test := range tests {
		text, err := json.Marshal(test.at)
		if err != nil || string(text) != test.want {
			t.Errorf("%s: %s, %v; want %s", name, text, err, test.want)
		}
		var back Time
		if err := json.Unmarshal(text, &back); err != nil || !back.Equal(test.at.Truncate(time.Millisecond)) || back.IsZero() != test.at.IsZero() {
			t.Errorf("%s: came back as %v, %v", name, back, err)
		}
	}
}

func TestTimeReads(t *testing.T) {
	for text, want := range map[string]time.Time{
		`"2026-03-01T12:00:00Z"`:                time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		`"2026-03-01T14:00:00.123456789+02:00"`: time.Date(2026, 3, 1, 12, 0, 0, 123_456_789, time.UTC),
		`null`:                                  {},
	} {
		got := At(time.Now()) // must be replaced
		if err := json.Unmarshal([]byte(text), &got); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{`""`, `"yesterday"`, `"2026-03-01"`, `7`, `{}`} {
		got := Time{}
		if err := json.Unmarshal([]byte(text), &got); err == nil || !got.IsZero() {
			t.Errorf("%s: %v, %v; want an error and no time", text, got, err)
		}
	}
}

func TestServerJSON(t *testing.T) {
	since := At(time.Date(2026, 3, 1, 12, 0, 0, 5_000_000, time.UTC))
	tests := map[string]struct {
		server Server
		want   string
	}{
		"full": {
			Server{Name: "s", State: Reconnecting, Since: since, Transport: "stdio", Attempt: 2, MaxAttempts: 10, NextAttemptAt: since,
				LastError: "e", StderrTail: "t", Restarts: 3, PID: 4, RSSBytes: 5, ProtocolVersion: "2025-06-18", Tools: 6, Prompts: 7,
				Resources: 8, Stale: true, Enabled: true, Instances: []Instance{{Folder: "/p", State: Connected, PID: 9}}},
			`{"name":"s","state":"reconnecting","since":"2026-03-01T12:00:00.005Z","transport":"stdio","attempt":2,"maxAttempts":10,` +
				`"nextAttemptAt":"2026-03-01T12:00:00.005Z","lastError":"e","stderrTail":"t","restarts":3,"pid":4,"rssBytes":5,` +
				`"protocolVersion":"2025-06-18","tools":6,"prompts":7,"resources":8,"stale":true,"enabled":true,` +
				`"instances":[{"folder":"/p","state":"connected","pid":9}]}`,
		},
		"least": {
			Server{Name: "s", State: Disabled, Since: since, Transport: "http", Instances: []Instance{}},
			`{"name":"s","state":"disabled","since":"2026-03-01T12:00:00.005Z","transport":"http","attempt":0,"maxAttempts":0,` +
				`"restarts":0,"tools":0,"prompts":0,"resources":0,"stale":false,"enabled":false,"instances":[]}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { golden(t, test.server, test.want) })
	}
}

func TestSessionJSON(t *testing.T) {
	golden(t,
		Session{ID: "s1", Client: Client{Name: "claude-code", Version: "2.1"}, PID: 7, CWD: "/src", ProtocolVersion: "2025-06-18",
			AttachedAt: At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), Calls: 3},
		`{"id":"s1","client":{"name":"claude-code","version":"2.1"},"pid":7,"cwd":"/src","protocolVersion":"2025-06-18",`+
			`"attachedAt":"2026-03-01T12:00:00.000Z","calls":3}`)
	golden(t, Session{},
		`{"id":"","client":{"name":"","version":""},"pid":0,"cwd":"","protocolVersion":"","attachedAt":null,"calls":0}`)
}

func TestTrayJSON(t *testing.T) {
	golden(t, Tray{Shown: true}, `{"shown":true}`)
	golden(t, Tray{Reason: "no session bus"}, `{"shown":false,"reason":"no session bus"}`)
}

// golden holds the JSON of value against want, and the value read back against
// value: scripts and the CLI read what the app writes.
func golden[T any](t *testing.T, value T, want string) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v\nwant %s", text, err, want)
	}
	var back T
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatalf("reading it back: %v", err)
	}
	if diff := cmp.Diff(value, back); diff != "" {
		t.Errorf("read back (-written +read):\n%s", diff)
	}
}
