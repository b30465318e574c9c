package status

// State is the public state of one server.
type State string

// The states of a server, as they appear in `status --json` and in events.
const (
	// Disabled: switched off, by the config or by the user.
	Disabled State = "disabled"
	// Idle: a server of scope project or session that nobody uses now.
	Idle State = "idle"
	// Connecting: the first attempt, or a fresh start the user asked for.
	Connecting State = "connecting"
	// Connected: handshake and lists succeeded on this very connection.
	Connected State = "connected"
	// Reconnecting: lost or not yet reached; tried again with growing delays.
	Reconnecting State = "reconnecting"
	// SlowProbe: the fast attempts are used up; one try per interval, for ever.
	SlowProbe State = "slow_probe"
	// NeedsAuth: the server answered 401 or 403 to the handshake.
	NeedsAuth State = "needs_auth"
	// Invalid: the entry in the config is wrong; nothing is started.
	Invalid State = "invalid"
)

// States returns every state, best first: the order in which the worst of
// several servers is found.
func States() []State {
	return []State{Disabled, Idle, Connected, Connecting, Reconnecting, NeedsAuth, SlowProbe, Invalid}
}

// Severity ranks s among [States]; a larger number is worse. An unknown state
// ranks below all others.
func (s State) Severity() int {
	for i, known := range States() {
		if s == known {
			return i
		}
	}
	return -1
}

// Down reports whether a server in state s cannot take calls although the user
// wants it to run.
func (s State) Down() bool {
	switch s {
	case Reconnecting, SlowProbe, NeedsAuth, Invalid:
		return true
	case Disabled, Idle, Connecting, Connected:
		return false
	}
	return false
}

// Words is the state as people read it, for example "slow probe".
func (s State) Words() string {
	switch s {
	case SlowProbe:
		return "slow probe"
	case NeedsAuth:
		return "needs a log-in"
	case Invalid:
		return "wrong configuration"
	case Disabled, Idle, Connecting, Connected, Reconnecting:
		return string(s)
	}
	return string(s)
}

// Worst returns the worst state among servers, not counting disabled ones.
// Without any enabled server it returns [Disabled].
func Worst(servers []Server) State {
	worst := Disabled
	for _, s := range servers {
		if s.State.Severity() > worst.Severity() {
			worst = s.State
		}
	}
	return worst
}
