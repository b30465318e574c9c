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
	// others are those that a notice of recoveries says are still down.
	others []string
	title  string
	// stale: it is on the screen with members that it is not true of any more.
	stale bool
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
		d.takeOut(name, k)
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
	now := digest{kind: k, first: d.at.now, members: members}
	if before.kind == k && len(members) > len(names) {
		now.first = before.first
	}
	if k == kindRecovery {
		for _, name := range slices.Concat(before.members, before.others) {
			if one := d.t.servers[name]; one.fault != "" && one.told != "" {
				now.others = append(now.others, name)
			}
		}
	}
	var closes []string
	for _, name := range members {
		if d.t.servers[name].shown {
			closes = append(closes, serverKey(name))
		}
	}
	for _, name := range names {
		d.takeOut(name, k)
		d.told(name, false)
	}
	n = d.digestNotice(now)
	n.Closes, now.title = closes, n.Title
	*place = now
	return n, n.Title != before.title || !slices.Equal(members, before.members)
}

// digestNotice tells what g is about; a sole member as in a notice of its own.
func (d *teller) digestNotice(g digest) Notice {
	probing := true
	for _, name := range g.members {
		probing = probing && d.t.servers[name].told == status.SlowProbe
	}
	n := digestNotice(g.kind, g.members, g.others, probing)
	if first := g.members[0]; len(g.members) == 1 {
		key := n.Key
		n = faultNotice(d.servers[first], d.t.servers[first].told)
		n.Key = key
	}
	return n
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

// place is where a notice about several servers can be on the screen.
type place struct {
	*digest
	key string
}

func (d *teller) places() []place {
	return []place{{&d.t.several, keySeveral}, {&d.t.logins, keyLogins}}
}

// takeOut takes a server out of the notices about several, because there is one that
// tells what is new of it, which is k.
func (d *teller) takeOut(name string, k kind) {
	if k == kindRecovery {
		d.notDown(name)
		return
	}
	d.notUp(name)
	d.leave(name)
}

// notDown notes that no notice about several may say that a server is down.
func (d *teller) notDown(name string) {
	d.leave(name)
	for _, g := range d.places() {
		if slices.Contains(g.others, name) {
			g.members, g.stale = nil, true
		}
	}
}

// notUp notes that no notice about several may say that a server works. Such a one is
// not told again of the others: that is old news, and what it said of them is over.
func (d *teller) notUp(name string) {
	for _, g := range d.places() {
		if g.kind == kindRecovery && slices.Contains(g.members, name) {
			g.members, g.stale = nil, true
		}
	}
}

// leave takes a server out of the notices about faults of several.
func (d *teller) leave(name string) {
	for _, g := range d.places() {
		if i := slices.Index(g.members, name); i >= 0 && g.kind != kindRecovery {
			g.members, g.stale = slices.Delete(slices.Clone(g.members), i, i+1), true
		}
	}
}

// mend brings what is on the screen about several servers in line with what is left of
// it: it is told again in its place, or closed.
func (d *teller) mend() {
	for _, g := range d.places() {
		switch {
		case !g.stale:
		case len(g.members) == 0:
			d.closes = append(d.closes, g.key)
			*g.digest = digest{}
		default:
			n := d.digestNotice(*g.digest)
			g.title, g.stale = n.Title, false
			d.notices = append(d.notices, n)
		}
	}
}
