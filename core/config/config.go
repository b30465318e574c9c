package config

import "time"

// Type is the transport by which a server is reached.
type Type string

// The transports.
const (
	Stdio Type = "stdio" // a process of ours, talked to over its stdin and stdout
	HTTP  Type = "http"  // Streamable HTTP
	SSE   Type = "sse"   // the older HTTP transport with a separate event stream
)

// Scope says how many processes (or connections) a server has.
type Scope string

// The scopes.
const (
	Shared     Scope = "shared"  // one for everybody
	PerProject Scope = "project" // one for each project folder
	PerSession Scope = "session" // one for each client session
)

// Config is everything the user configured. It is immutable.
type Config struct {
	// Path is the main file, whether or not it exists.
	Path string
	// Files are the files that existed and were read, the base file first.
	// It is empty when there is no configuration at all.
	Files []string
	// Servers in the files' order: the base file's first. A server of the main
	// file that has the name of one in the base file stands in its place.
	Servers []Server
	// Reconnect is what holds for servers that do not override it; each
	// Server carries the effective values.
	Reconnect Reconnect
	// ExposeTools are the patterns of tools that clients see.
	// nil: every tool; empty: none.
	ExposeTools []string
	// HideTools are the patterns of tools no client can list or call.
	HideTools []string
	// NameMaxLength limits the length of exposed names; 0: by client.
	NameMaxLength int
	Notifications Notifications
	// HTTPListen is the address of the HTTP endpoint, as host:port. Empty: there
	// is none. It is one of this machine only unless HTTPAllowRemote.
	HTTPListen string
	// HTTPAllowRemote: the user wants other machines to reach the endpoint.
	HTTPAllowRemote bool
	// Warnings are the findings that make no server unusable, in the order of
	// the files, and the second and later problems of a server.
	Warnings []Issue
}

// Reconnect says how a lost server is brought back. All delays are >= 10 ms.
type Reconnect struct {
	// Enabled false: no quick attempts; a server that fails goes to the slow probe.
	Enabled bool
	// MaxAttempts before the slow probe begins; 0: at once.
	MaxAttempts int
	// InitialDelay comes before the first retry; each later one is
	// BackoffMultiplier (>= 1) times as long, up to MaxDelay.
	InitialDelay, MaxDelay time.Duration
	// SlowProbeInterval lies between two tries once the attempts are used up.
	SlowProbeInterval time.Duration
	// StableAfter is how long a connection has to last to reset the counter.
	StableAfter time.Duration
	// BackoffMultiplier is >= 1.
	BackoffMultiplier float64
	// Jitter is the share, 0 to 1, by which a delay varies at random both ways.
	Jitter float64
}

// Notifications says when the desktop is told of trouble.
type Notifications struct {
	Enabled bool
	// After is how long a fault has to last to be told.
	After time.Duration
	// QuietAfterStart is how long after the start nothing is told.
	QuietAfterStart time.Duration
}

// Server is one entry of the configuration, ready to be run.
type Server struct {
	// Name is the entry's key as the user wrote it. When Problem is about the
	// name itself it can hold anything.
	Name string
	Type Type
	// FallbackSSE: the entry has a url and no type, so a server that does not
	// speak Streamable HTTP is tried with SSE.
	FallbackSSE bool

	// Command and Args start a server of type stdio. A leading "~/" of Command
	// is expanded; Args are passed on byte for byte.
	Command string
	Args    []string
	// Env is laid over the environment: "K=V" in the file's order, each key once.
	Env []string
	// EnvFile is the absolute path of a file of further variables, below Env.
	// It is read at each start of the server, by [ReadEnvFile]. Empty: none.
	EnvFile string
	// Cwd is the absolute folder the process starts in: the home folder if the
	// entry names none.
	Cwd string
	// OwnCwd: the entry names Cwd itself.
	OwnCwd bool

	// URL and Headers are for the types http and sse.
	URL     string
	Headers map[string]string
	// CAFile is the absolute path of a PEM file with certificates of authorities that
	// are trusted besides the system's. It is read at each connection. Empty: none.
	CAFile string

	// Enabled is independent of Problem: a disabled entry can be wrong as well.
	Enabled bool
	Scope   Scope
	// NeedsFolder: ${PROJECT_DIR} is used, without a default. The texts in which it
	// is used are complete only in what [Server.In] returns.
	NeedsFolder bool
	// IdleTimeout is how long an instance of a server of scope project or session
	// stays when nobody uses it any more; MaxInstances (>= 1) is how many there may
	// be at a time.
	IdleTimeout  time.Duration
	MaxInstances int
	// StartupTimeout is how long one start may take until the handshake is done.
	StartupTimeout time.Duration
	// CallTimeout limits one call; 0: the client decides.
	CallTimeout time.Duration
	// PingInterval is how long an idle connection may be silent before the server is
	// asked whether it is still there; 0: it is never asked.
	PingInterval time.Duration
	// Prefix goes before the names of this server's tools; the name if the
	// entry has none. Empty: the tools' own names are exposed.
	Prefix string
	// Watch are absolute paths; the server is restarted when one changes.
	Watch []string
	// Reconnect are the effective values: the global ones with this entry's
	// own laid over them.
	Reconnect Reconnect

	// Problem is the first thing that is wrong with the entry; nil if it can
	// be run. The other fields hold what could be made out.
	Problem *Issue
	// Secrets are strings that must not be shown in any text about this server,
	// the longest first. What an EnvFile holds comes on top: see [EnvSecrets].
	Secrets []string
}

// defaults is the configuration of a user who configured nothing.
func defaults() *Config {
	return &Config{
		Reconnect: Reconnect{
			Enabled:           true,
			MaxAttempts:       10,
			InitialDelay:      time.Second,
			MaxDelay:          time.Minute,
			SlowProbeInterval: time.Minute,
			StableAfter:       time.Minute,
			BackoffMultiplier: 2,
			Jitter:            0.25,
		},
		Notifications: Notifications{
			Enabled:         true,
			After:           10 * time.Second,
			QuietAfterStart: 30 * time.Second,
		},
	}
}

// defaultPingInterval is that of servers reached over HTTP. A process of ours is not
// asked unless the user wants it: its end is noticed anyway.
const defaultPingInterval = 30 * time.Second

// What holds for servers with instances for each project or session.
const (
	defaultIdleTimeout  = 5 * time.Minute
	defaultMaxInstances = 20
)

// defaultStartupTimeout leaves room for a package runner that downloads first.
const defaultStartupTimeout = 120 * time.Second
