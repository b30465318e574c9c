package status

import (
	"encoding/json"
	"fmt"
	"time"
)

// Time is a moment that is written as RFC 3339, in UTC, with milliseconds.
type Time struct{ time.Time }

// At converts t.
func At(t time.Time) Time { return Time{t} }

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// MarshalJSON writes the moment; the zero time becomes null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + t.UTC().Format(timeLayout) + `"`), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *Time) UnmarshalJSON(data []byte) error {
	var text *string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("reading a time: %w", err)
	}
	if text == nil {
		*t = Time{}
		return nil
	}
	parsed, err := time.Parse(time.RFC3339Nano, *text)
	if err != nil {
		return fmt.Errorf("reading a time: %w", err)
	}
	t.Time = parsed
	return nil
}

// Server is the state of one configured server. Its JSON form is an element of
// `servers` in `status --json`.
type Server struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Since is when the server entered State.
	Since Time `json:"since"`
	// Transport is "stdio", "http" or "sse".
	Transport string `json:"transport"`
	// Attempt is the number of the present or next attempt while reconnecting,
	// 1 to MaxAttempts; in slow probe the number of probes made; else 0.
	Attempt     int `json:"attempt"`
	MaxAttempts int `json:"maxAttempts"`
	// NextAttemptAt is when the next attempt begins; zero when none is planned
	// or one is under way.
	NextAttemptAt Time `json:"nextAttemptAt,omitzero"`
	// LastError says what happened, to what, and what to do. Secrets removed.
	LastError string `json:"lastError,omitempty"`
	// StderrTail is the end of what the process wrote to stderr. Secrets removed.
	StderrTail string `json:"stderrTail,omitempty"`
	// Restarts counts the connections made after the first one.
	Restarts int `json:"restarts"`
	// PID of the process, 0 when there is none.
	PID int `json:"pid,omitempty"`
	// RSSBytes is the memory of the process and its descendants. It is measured
	// only when somebody asks for the status and 0 in board snapshots.
	RSSBytes int64 `json:"rssBytes,omitempty"`
	// ProtocolVersion is what the server answered in its handshake.
	ProtocolVersion string `json:"protocolVersion,omitempty"`
	// Tools, Prompts and Resources count what the server itself lists.
	Tools     int `json:"tools"`
	Prompts   int `json:"prompts"`
	Resources int `json:"resources"`
	// Stale: the lists come from an earlier connection.
	Stale bool `json:"stale"`
	// Enabled: the user wants it to run (config and menu).
	Enabled bool `json:"enabled"`
	// Instances lists the processes of a server that has one per project or
	// session; empty for a shared one.
	Instances []Instance `json:"instances"`
}

// Words is the state as people read it at now. A start that takes its time tells
// how long it has been under way: "starting (75 s)".
func (s Server) Words(now time.Time) string {
	took := now.Sub(s.Since.Time).Truncate(time.Second)
	if s.State != Connecting || s.Since.IsZero() || took < slowStart {
		return s.State.Words()
	}
	return fmt.Sprintf("starting (%d s)", int(took.Seconds()))
}

// slowStart is how long a start may take without being told of.
const slowStart = 3 * time.Second

// Instance is one process of a server with scope project or session.
type Instance struct {
	Folder string `json:"folder"`
	State  State  `json:"state"`
	PID    int    `json:"pid,omitempty"`
}

// Client is what an MCP client says of itself in `initialize`.
type Client struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Session is one attached MCP client. Its JSON form is an element of
// `sessions` in `status --json`.
type Session struct {
	ID     string `json:"id"`
	Client Client `json:"client"`
	// PID of the bridge.
	PID int `json:"pid"`
	// CWD is the folder the client works in.
	CWD             string `json:"cwd"`
	ProtocolVersion string `json:"protocolVersion"`
	AttachedAt      Time   `json:"attachedAt"`
	// Calls counts tools/call requests. It is current in a status answer and
	// may lag in board snapshots.
	Calls int64 `json:"calls"`
}

// Tray says whether an icon is shown and, if not, why and what mends it.
type Tray struct {
	Shown  bool   `json:"shown"`
	Reason string `json:"reason,omitempty"`
}

// Config is the state of the configuration file.
type Config struct {
	Path string `json:"path"`
	// Error is why the file as it is now could not be taken over; empty when
	// the running configuration is that of the file.
	Error string `json:"error,omitempty"`
	// Warnings are complaints that did not keep the file from being used.
	Warnings []string `json:"warnings,omitempty"`
}

// HTTP is how the HTTP endpoint for clients stands. Its JSON form is `http` in
// `status --json`.
type HTTP struct {
	// Listen is the address that is listened on, or that cannot be; empty: there is no
	// endpoint.
	Listen string `json:"listen"`
	// Error is why the endpoint is not open; empty when it is.
	Error string `json:"error,omitempty"`
}

// Snapshot is everything at one moment. It is immutable.
type Snapshot struct {
	// Generation grows by one with every change of the board.
	Generation uint64
	// Servers in the order of the configuration.
	Servers []Server
	// Sessions in the order in which they attached.
	Sessions []Session
	Config   Config
	Tray     Tray
	HTTP     HTTP
	// ExposedTools counts what clients see in tools/list.
	ExposedTools int
}

// Server finds a server by name.
func (s Snapshot) Server(name string) (Server, bool) {
	for _, server := range s.Servers {
		if server.Name == name {
			return server, true
		}
	}
	return Server{}, false
}
