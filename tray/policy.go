package tray

import (
	"maps"
	"slices"
	"time"

	"mcp-funnel/core/status"
)

// Policy says when the user is told of trouble.
type Policy struct {
	// Enabled: the user is told at all.
	Enabled bool
	// After is how long a server has to be lost to be told of.
	After time.Duration
	// QuietAfterStart is how long after the start nothing is told.
	QuietAfterStart time.Duration
}

// flapWindow: a server that is lost again within it flaps, and gets one notice in
// each.
const flapWindow = 10 * time.Minute

// tellings is what was told and what is about to be. The zero value is that of a
// tray which has told nothing. It is never changed in place.
type tellings struct {
	// servers has those with something to remember, by name.
	servers map[string]telling
	// several is the notice on the screen about several servers; logins the one
	// about several that need a log-in.
	several, logins digest
	// config is the configuration's error that was told and is not over; "" none.
	config string
	// on: notices were enabled at the last decision.
	on bool
}

// telling is what is remembered of one server.
type telling struct {
	// fault is what is wrong, "" nothing; since is when it went wrong, changed when
	// it came to fault.
	fault          status.State
	since, changed time.Time
	// due: the fault was worth telling, whether or not it was told.
	due bool
	// told is the fault that the user was told of and not yet of its end; "" none.
	told status.State
	// news is since when there is something to tell; zero: there is nothing.
	news time.Time
	// over is when the last fault that was due ended. flapping: the present one
	// followed soon; last is when it was told of a flapping server.
	over     time.Time
	flapping bool
	last     time.Time
	// shown: a notice about it alone is on the screen.
	shown bool
}

// teller makes the decisions of one moment, on a copy of what is remembered.
type teller struct {
	at      moment
	quiet   time.Time // until then nothing is told
	t       tellings
	servers map[string]status.Server
	notices []Notice
	closes  []string
	// wake is when there is something to decide although nothing happens; zero: never.
	wake time.Time
}

// decide returns the notices that are due, what is to be remembered, and when to
// decide again even if nothing happens; zero: never.
func decide(at moment, past tellings) ([]Notice, tellings, time.Time) {
	past.servers = maps.Clone(past.servers)
	if past.servers == nil {
		past.servers = make(map[string]telling)
	}
	d := &teller{
		at: at, t: past, quiet: at.started.Add(at.policy.QuietAfterStart),
		servers: make(map[string]status.Server, len(at.snapshot.Servers)),
	}
	for _, s := range at.snapshot.Servers {
		d.servers[s.Name] = s
	}
	for name := range past.servers {
		if _, ok := d.servers[name]; !ok {
			d.drop(name)
		}
	}
	for _, s := range at.snapshot.Servers {
		d.observe(s)
	}
	d.flush()
	d.decideConfig()
	if at.policy.Enabled {
		d.mend()
	} else {
		d.clearScreen()
	}
	d.t.on = at.policy.Enabled
	if len(d.closes) > 0 {
		d.notices = append([]Notice{{Closes: d.closes}}, d.notices...)
	}
	return d.notices, d.t, d.wake
}

// mute reports whether nothing is told now.
func (d *teller) mute() bool {
	if d.at.now.Before(d.quiet) {
		d.wakeAt(d.quiet)
		return true
	}
	return !d.at.policy.Enabled
}

func (d *teller) wakeAt(t time.Time) {
	if d.wake.IsZero() || t.Before(d.wake) {
		d.wake = t
	}
}

// observe notes how s is.
func (d *teller) observe(s status.Server) {
	one := d.t.servers[s.Name]
	switch s.State {
	case status.Disabled, status.Idle, status.Invalid:
		d.drop(s.Name) // by the user or an edit, who know it
		return
	case status.Connected:
		one = d.up(s.Name, one)
	case status.Reconnecting, status.SlowProbe, status.NeedsAuth:
		one = d.down(s.Name, one, s.State)
	case status.Connecting: // the attempt decides
	}
	if one == (telling{}) {
		delete(d.t.servers, s.Name)
		return
	}
	d.t.servers[s.Name] = one
}

// drop forgets a server that is not to run.
func (d *teller) drop(name string) {
	if d.t.servers[name].shown {
		d.closes = append(d.closes, serverKey(name))
	}
	d.notDown(name)
	delete(d.t.servers, name)
}

// up notes that a server works.
func (d *teller) up(name string, one telling) telling {
	if one.due {
		one.over = d.at.now
	}
	one.fault, one.since, one.changed, one.due = "", time.Time{}, time.Time{}, false
	switch {
	case one.told == "":
		one.news = time.Time{}
	case !d.at.policy.Enabled:
		one.told, one.news = "", time.Time{}
	case d.held(one):
		one.told, one.news = "", time.Time{}
		one = d.unsay(name, one)
	case one.news.IsZero():
		one.news = d.at.now
	}
	if one.told == "" && !one.shown && d.at.now.Sub(one.over) >= flapWindow {
		return telling{}
	}
	return one
}

// down notes that a server does not work.
func (d *teller) down(name string, one telling, fault status.State) telling {
	if one.since.IsZero() {
		one.since = d.at.now
	}
	if one.fault != fault {
		one.fault, one.changed = fault, d.at.now
	}
	ripe := one.changed
	if fault == status.Reconnecting {
		ripe = one.since.Add(d.at.policy.After)
	}
	switch {
	case one.told == fault, one.told != "" && fault == status.Reconnecting:
		one.news = time.Time{} // nothing new
		return one
	case d.mute():
		return one
	case d.at.now.Before(ripe):
		d.wakeAt(ripe)
		return one
	}
	if !one.due {
		one.due = true
		one.flapping = !one.over.IsZero() && d.at.now.Sub(one.over) < flapWindow
		if !one.flapping {
			one.last = time.Time{}
		}
	}
	if d.held(one) {
		d.wakeAt(one.last.Add(flapWindow))
		one.news = time.Time{}
		return d.unsay(name, one)
	}
	if one.news.IsZero() {
		one.news = ripe
	}
	return one
}

// held reports whether a flapping server has had its notice.
func (d *teller) held(one telling) bool {
	return one.flapping && !one.last.IsZero() && d.at.now.Sub(one.last) < flapWindow
}

// unsay closes the notices that say the contrary of what is not told.
func (d *teller) unsay(name string, one telling) telling {
	upright := one.fault == ""
	if one.shown && (upright || one.told == "") {
		d.closes = append(d.closes, serverKey(name))
		one.shown = false
	}
	if upright {
		d.notDown(name)
	} else {
		d.notUp(name)
	}
	return one
}

// decideConfig tells that the configuration became unusable, and when it is so for
// another reason.
func (d *teller) decideConfig() {
	problem := problem(d.at.snapshot.Config)
	switch {
	case problem == d.t.config:
	case problem == "":
		d.t.config = ""
		d.closes = append(d.closes, keyConfig)
	case !d.mute():
		d.t.config = problem
		d.notices = append(d.notices, configNotice(problem))
	}
}

// clearScreen takes everything off the screen, once, where nothing may be told.
func (d *teller) clearScreen() {
	for _, g := range d.places() {
		if g.members != nil || g.stale {
			d.closes = append(d.closes, g.key)
		}
		*g.digest = digest{}
	}
	for _, name := range slices.Sorted(maps.Keys(d.t.servers)) {
		one := d.t.servers[name]
		if one.shown {
			d.closes = append(d.closes, serverKey(name))
		}
		one.shown = false
		d.t.servers[name] = one
	}
	if d.t.config != "" {
		d.closes = append(d.closes, keyConfig)
	}
	d.closes = append(d.closes, keyCommand)
	if !d.t.on {
		d.closes = nil // that was done before
	}
	d.wake = time.Time{}
}
