package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
)

// Fingerprint identifies what the entry runs or connects to: two entries with
// the same fingerprint start the same program, or reach the same address, in
// the same way. Timeouts, names and the like do not matter. It is the same in
// every run, and gives no secret away: it is a SHA-256 in hex.
func (s Server) Fingerprint() string {
	// encoding/json writes map keys sorted, so the text is always the same.
	text, err := json.Marshal(struct {
		Type                       Type
		FallbackSSE                bool
		Command, EnvFile, Cwd, URL string
		Args, Env                  []string
		Headers                    map[string]string
		Scope                      Scope
		// Left out when empty, so that entries without it keep their fingerprints.
		CAFile string `json:",omitempty"`
	}{s.Type, s.FallbackSSE, s.Command, s.EnvFile, s.Cwd, s.URL, s.Args, s.Env, s.Headers, s.Scope, s.CAFile})
	if err != nil {
		// Strings and a map of strings can always be written.
		panic("config: writing a fingerprint: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Changes is what differs between two configurations.
type Changes struct {
	// Added, Removed and Changed are names of servers, in the order of the new
	// configuration (Removed: of the old one). Changed are those whose own entry
	// means something else than before; one that only inherits a setting that
	// changed is not among them, though its effective Reconnect is new.
	Added, Removed, Changed []string
	// Global: something outside the entries changed, or their order.
	Global bool
}

// Empty reports whether nothing differs.
func (c Changes) Empty() bool {
	return !c.Global && len(c.Added)+len(c.Removed)+len(c.Changed) == 0
}

// Diff compares the configuration before and after; nil counts as one of
// defaults without servers. Where something stands in the file makes no
// difference.
func Diff(before, after *Config) Changes {
	if before == nil {
		before = defaults()
	}
	if after == nil {
		after = defaults()
	}
	had, have := byName(before), byName(after)
	var c Changes
	for _, s := range after.Servers {
		was, existed := had[s.Name]
		switch {
		case !existed:
			c.Added = append(c.Added, s.Name)
		case !sameEntry(was, s, before.Reconnect, after.Reconnect):
			c.Changed = append(c.Changed, s.Name)
		}
	}
	for _, s := range before.Servers {
		if _, stays := have[s.Name]; !stays {
			c.Removed = append(c.Removed, s.Name)
		}
	}
	c.Global = !sameSettings(before, after) || !slices.Equal(common(before, have), common(after, had))
	return c
}

func byName(c *Config) map[string]Server {
	index := make(map[string]Server, len(c.Servers))
	for _, s := range c.Servers {
		index[s.Name] = s
	}
	return index
}

// common are the names of c's servers that are in other too, in c's order.
func common(c *Config, other map[string]Server) []string {
	var names []string
	for _, s := range c.Servers {
		if _, ok := other[s.Name]; ok {
			names = append(names, s.Name)
		}
	}
	return names
}

// sameSettings compares what is outside the entries. nil and empty lists of
// exposed tools mean different things, so they are not equal.
func sameSettings(a, b *Config) bool {
	return a.Reconnect == b.Reconnect && a.Notifications == b.Notifications &&
		reflect.DeepEqual(a.ExposeTools, b.ExposeTools) && slices.Equal(a.HideTools, b.HideTools) &&
		a.NameMaxLength == b.NameMaxLength && a.HTTPListen == b.HTTPListen && a.HTTPAllowRemote == b.HTTPAllowRemote
}

// sameEntry compares two entries by what they mean.
func sameEntry(a, b Server, inheritedA, inheritedB Reconnect) bool {
	if !sameReconnect(a.Reconnect, b.Reconnect, inheritedA, inheritedB) || !sameProblem(a.Problem, b.Problem) ||
		!slices.Equal(a.Args, b.Args) || !slices.Equal(a.Env, b.Env) || !slices.Equal(a.Watch, b.Watch) ||
		!maps.Equal(a.Headers, b.Headers) {
		return false
	}
	// What is left are plain values. Secrets follow from the other fields.
	for _, s := range []*Server{&a, &b} {
		s.Reconnect, s.Problem, s.Secrets = Reconnect{}, nil, nil
		s.Args, s.Env, s.Watch, s.Headers = nil, nil, nil, nil
	}
	return reflect.DeepEqual(a, b)
}

// sameProblem leaves out line and column: another entry can move them.
func sameProblem(a, b *Issue) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Path == b.Path && a.Message == b.Message
}

// sameReconnect compares two effective values by what their entries say: a
// field that equals the inherited one on both sides is not the entry's own.
func sameReconnect(a, b, inheritedA, inheritedB Reconnect) bool {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	ia, ib := reflect.ValueOf(inheritedA), reflect.ValueOf(inheritedB)
	for i := range va.NumField() {
		inherited := va.Field(i).Equal(ia.Field(i)) && vb.Field(i).Equal(ib.Field(i))
		if !inherited && !va.Field(i).Equal(vb.Field(i)) {
			return false
		}
	}
	return true
}
