package tray

import (
	"slices"
	"time"

	"mcp-funnel/core/status"
)

const (
	// gatherFor is how long news wait for others that belong to them.
	gatherFor = 2 * time.Second
	// digestFrom is from how many servers on they are told of in one notice.
	digestFrom = 3
	// growFor is how long such a notice may take up further servers.
	growFor = 10 * time.Second
)

// kind is what notices are told together.
type kind int

const (
	kindFault kind = iota
	kindLogin
	kindRecovery
)

// digest is one notice about several servers.
type digest struct {
	kind kind
	// first is when it was shown first; members whom it is about, nil: not shown.
	first   time.Time
	members []string
	title   string
}

// flush tells the news, once the first of them has waited for the others.
func (d *teller) flush() {
	var oldest time.Time
	news := make(map[kind][]string)
	for _, s := range d.at.snapshot.Servers {
		one := d.t.servers[s.Name]
		if one.news.IsZero() {
			continue
		}
		if oldest.IsZero() || one.news.Before(oldest) {
			oldest = one.news
		}
		news[one.kind()] = append(news[one.kind()], s.Name)
	}
	if oldest.IsZero() || d.mute() {
		return
	}
	if ready := oldest.Add(gatherFor); d.at.now.Before(ready) {
		d.wakeAt(ready)
		return
	}
	for _, k := range []kind{kindFault, kindLogin, kindRecovery} {
		d.tell(k, news[k], oldest)
	}
}

// kind is which news there is.
func (t telling) kind() kind {
	if t.fault == "" {
		return kindRecovery
	}
	if t.fault == status.NeedsAuth {
		return kindLogin
	}
	return kindFault
}

// tell makes notices of what happened to servers, since oldest.
func (d *teller) tell(k kind, names []string, oldest time.Time) {
	if len(names) == 0 {
		return
	}
	place := &d.t.several
	if k == kindLogin {
		place = &d.t.logins
	}
	members := d.members(place, k, names, oldest)
	if len(members) >= digestFrom {
		if n, news := d.digest(place, k, members, names); news {
			d.notices = append(d.notices, n)
		}
		return
	}
	for _, name := range names {
		d.contradict(name, k == kindRecovery)
		d.told(name, true)
		if s := d.servers[name]; k == kindRecovery {
			d.notices = append(d.notices, recoveryNotice(s))
		} else {
			d.notices = append(d.notices, faultNotice(s, d.t.servers[name].fault))
		}
	}
}

// members are the servers that belong into one notice with names, in the order of
// the snapshot: besides those of a notice that may still grow.
func (d *teller) members(place *digest, k kind, names []string, oldest time.Time) []string {
	if place.kind != k || place.members == nil || oldest.Sub(place.first) > growFor {
		return names
	}
	var all []string
	for _, s := range d.at.snapshot.Servers {
		if slices.Contains(names, s.Name) ||
			slices.Contains(place.members, s.Name) && d.t.servers[s.Name].kind() == k {
			all = append(all, s.Name)
		}
	}
	return all
}

// digest makes or enlarges the notice about several servers; names are those of
// whom there is news. It reports whether the notice says anything new.
func (d *teller) digest(place *digest, k kind, members, names []string) (n Notice, news bool) {
	before := *place
	*place = digest{} // the new one takes its place: it is not closed
	for _, name := range names {
		d.contradict(name, k == kindRecovery)
	}
	now := digest{kind: k, first: d.at.now, members: members}
	if before.kind == k && len(members) > len(names) {
		now.first = before.first
	}
	*place = now
	probing := true
	var closes, others []string
	for _, name := range members {
		probing = probing && d.t.servers[name].fault == status.SlowProbe
		if d.t.servers[name].shown {
			closes = append(closes, serverKey(name))
		}
	}
	for _, name := range before.members {
		if k == kindRecovery && d.t.servers[name].fault != "" {
			others = append(others, name)
		}
	}
	for _, name := range names {
		d.told(name, false)
	}
	n = digestNotice(k, members, others, probing)
	n.Closes, place.title = closes, n.Title
	return n, n.Title != before.title || !slices.Equal(members, before.members)
}

// told notes that the news of a server was told, in a notice of its own or not.
func (d *teller) told(name string, alone bool) {
	one := d.t.servers[name]
	one.told, one.news, one.shown = one.fault, time.Time{}, alone
	if one.flapping {
		one.last = d.at.now
	}
	d.t.servers[name] = one
}

// contradict closes a notice about several servers that is not true of one of them
// any more: it is up or down now.
func (d *teller) contradict(name string, up bool) {
	for _, g := range []struct {
		*digest
		key string
	}{{&d.t.several, keySeveral}, {&d.t.logins, keyLogins}} {
		if (g.kind == kindRecovery) != up && slices.Contains(g.members, name) {
			d.closes = append(d.closes, g.key)
			*g.digest = digest{}
		}
	}
}
