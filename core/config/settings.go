package config

import "fmt"

const (
	minDelayMillis = 10
	maxAttempts    = 1_000_000
	maxInstances   = 1000
	// minNameLength leaves room for the hash of a shortened name.
	minNameLength = 16
	maxNameLength = 1024
)

// settings reads everything of d but the servers into c. What is wrong is a
// warning, and the value that c has stays.
func (d *document) settings(c *Config) {
	for _, m := range d.members {
		switch m.key {
		case "mcpServers", "servers":
		case "reconnect", "autoReconnect":
			readReconnect(m.node, &c.Reconnect, d.warnHeld)
		case "exposeTools":
			d.readPatterns(m.node, &c.ExposeTools)
		case "hideTools":
			d.readPatterns(m.node, &c.HideTools)
		case "names":
			d.readNames(m.node, c)
		case "notifications":
			d.readNotifications(m.node, &c.Notifications)
		case "http":
			d.readHTTP(m.node, c)
		default:
			m.unknown()
		}
	}
}

// warnHeld warns of a wrong setting and says which value is in force.
func (d *document) warnHeld(bad Issue, held any) {
	bad.Message += fmt.Sprintf("; %s holds", heldWords(held))
	d.warn(bad)
}

// section are the members of an object; anything else but null is a warning.
func (d *document) section(n node) []member {
	if n.kind() != '{' && !n.null() {
		bad := n.mismatch("an object")
		bad.Message += "; the defaults hold"
		d.warn(*bad)
	}
	return n.members()
}

// readReconnect lays the object n over r.
func readReconnect(n node, r *Reconnect, report reporter) {
	if n.kind() != '{' && !n.null() {
		report(*n.mismatch("an object"), nil)
		return
	}
	for _, m := range n.members() {
		switch m.key {
		case "enabled":
			read(m.node, asBool, &r.Enabled, report)
		case "maxAttempts":
			read(m.node, asInt(0, maxAttempts), &r.MaxAttempts, report)
		case "initialDelayMs":
			read(m.node, asMillis(minDelayMillis), &r.InitialDelay, report)
		case "backoffMultiplier":
			read(m.node, asNumber(1, 1000), &r.BackoffMultiplier, report)
		case "maxDelayMs":
			read(m.node, asMillis(minDelayMillis), &r.MaxDelay, report)
		case "jitter":
			read(m.node, asNumber(0, 1), &r.Jitter, report)
		case "slowProbeIntervalMs":
			read(m.node, asMillis(minDelayMillis), &r.SlowProbeInterval, report)
		case "stableAfterMs":
			read(m.node, asMillis(minDelayMillis), &r.StableAfter, report)
		default:
			m.unknown()
		}
	}
}

// readPatterns reads a list of tool patterns. A lone string is taken as a list
// of one, and a wrong element leaves the others standing: a list that hides
// tools must not open up because of a slip.
func (d *document) readPatterns(n node, into *[]string) {
	if n.null() {
		return
	}
	switch n.kind() {
	case '"':
		d.warn(n.issue("must be a list; taken as a list of this one pattern"))
		*into = []string{n.literal().String()}
	case '[':
		list := []string{}
		for _, e := range n.elements() {
			pattern, bad := asString(e)
			if bad != nil {
				bad.Message += "; ignored, the other patterns hold"
				d.warn(*bad)
				continue
			}
			list = append(list, pattern)
		}
		*into = list
	default:
		d.warnHeld(*n.mismatch("a list of strings"), nil)
	}
}

func (d *document) readNames(n node, c *Config) {
	for _, m := range d.section(n) {
		if m.key != "maxLength" {
			m.unknown()
			continue
		}
		read(m.node, asNameLength, &c.NameMaxLength, d.warnHeld)
	}
}

// asNameLength reads 0 or a length that leaves room for a name and a hash.
func asNameLength(n node) (int, *Issue) {
	v, bad := asInt(0, maxNameLength)(n)
	if bad != nil || v != 0 && v < minNameLength {
		out := n.issue("must be 0 (by client) or a whole number from %d to %d", minNameLength, maxNameLength)
		return 0, &out
	}
	return v, nil
}

func (d *document) readNotifications(n node, into *Notifications) {
	for _, m := range d.section(n) {
		switch m.key {
		case "enabled":
			read(m.node, asBool, &into.Enabled, d.warnHeld)
		case "afterMs":
			read(m.node, asMillis(0), &into.After, d.warnHeld)
		case "quietAfterStartMs":
			read(m.node, asMillis(0), &into.QuietAfterStart, d.warnHeld)
		default:
			m.unknown()
		}
	}
}
