package tray

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mcp-funnel/assets"
	"mcp-funnel/core/status"
)

// moment is what a picture is made from.
type moment struct {
	snapshot status.Snapshot
	now      time.Time
	// started is when the tray was; it counts for what is quiet at first.
	started time.Time
	// opened: the user has just opened the menu, so that rows may change places.
	opened bool
	policy Policy
	// noTick: the user has switched notifications off in the menu, so that policy
	// is not enabled either.
	noTick bool
	facts  facts
}

// facts is what is not on the board and was measured when the menu opened last.
type facts struct {
	Details
	// autostart is the setting as it is on disk; nil: there is none to show.
	autostart *bool
	// updated: a newer program than the running one is in place.
	updated bool
}

// memory is what one picture leaves for the next. The zero value is that of a
// tray which has not shown anything.
type memory struct {
	// order is that of the rows, by name; those of removed servers are among them.
	order []string
	// opened is when the user opened the menu last; zero: never.
	opened   time.Time
	tellings tellings
	// wake is when the picture changes although nothing happens; zero: never.
	wake time.Time
}

// looks is for how long after the menu was opened its count-downs go on. Later
// nobody looks, and each change would wake the panel.
const looks = time.Minute

// present makes the picture of a moment and the notices due. It changes none of
// its arguments.
func present(at moment, m memory) (model, []Notice, memory) {
	next := memory{opened: m.opened}
	if at.opened {
		next.opened = at.now
	}
	var notices []Notice
	notices, next.tellings, next.wake = decide(at, m.tellings)
	picture := model{
		icon:    worstShape(at.snapshot),
		summary: summary(at.snapshot),
		problem: oneLine(problem(at.snapshot.Config), labelLimit),
		restart: at.facts.updated,
	}
	picture.tooltip = "MCP Funnel: " + picture.summary
	picture.sessions, picture.sessionLines = describeSessions(at.snapshot.Sessions, at.facts.Sessions)
	picture.autostart, picture.notifications = ticks(at)
	next.order = arrange(at.snapshot.Servers, m.order, at.opened)
	servers := make(map[string]status.Server, len(at.snapshot.Servers))
	for _, s := range at.snapshot.Servers {
		servers[s.Name] = s
	}
	for _, name := range next.order {
		s, ok := servers[name]
		if !ok {
			picture.rows = append(picture.rows, row{removed: true})
			continue
		}
		text, lasts := describe(s, at.now)
		picture.rows = append(picture.rows, row{
			server:    s.Name,
			label:     label(s.Name, text),
			icon:      shape(s.State),
			err:       oneLine(trouble(s), labelLimit),
			facts:     describeFacts(s, at.facts.Memory[s.Name], next.opened),
			reconnect: canReconnect(s.State),
			enabled:   s.Enabled,
		})
		picture.reconnectAll = picture.reconnectAll || canReconnect(s.State)
		if lasts > 0 && at.now.Before(next.opened.Add(looks)) {
			next.wake = earlier(next.wake, at.now.Add(lasts))
		}
	}
	return picture, notices, next
}

// label is the row of a server. Of a long name the end is left out, so that the
// state can always be read.
func label(name, state string) string {
	const least = 20
	return oneLine(oneLine(name, max(least, labelLimit-len(": ")-utf8.RuneCountInString(state)))+": "+state, labelLimit)
}

// earlier returns the earlier of two moments, of which a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// ticks are the settings in the menu.
func ticks(at moment) (autostart, notifications tick) {
	if on := at.facts.autostart; on != nil {
		autostart = tick{title: autostartTitle, on: *on}
	}
	notifications = tick{title: notificationsTitle, on: !at.noTick}
	if !at.noTick && !at.policy.Enabled {
		notifications = tick{title: notificationsTitle + " (off in the configuration)", fixed: true}
	}
	return autostart, notifications
}

// arrange puts the names of servers into the order of the menu: worst first when the
// menu opens or was empty; otherwise as they stood, also those that were removed, and
// new ones last, so that nothing moves under the user's pointer.
func arrange(servers []status.Server, order []string, opened bool) []string {
	if opened || len(order) == 0 {
		servers, order = slices.Clone(servers), nil
		slices.SortStableFunc(servers, func(a, b status.Server) int {
			return cmp.Compare(b.State.Severity(), a.State.Severity())
		})
	}
	arranged := slices.Clone(order)
	for _, s := range servers {
		if !slices.Contains(order, s.Name) {
			arranged = append(arranged, s.Name)
		}
	}
	return arranged
}

// summary is the menu's first row.
func summary(s status.Snapshot) string {
	if s.Config.Error != "" {
		return "Configuration error"
	}
	if len(s.Servers) == 0 {
		return "No servers configured"
	}
	enabled, connected := 0, 0
	for _, server := range s.Servers {
		if !server.Enabled {
			continue
		}
		enabled++
		if server.State == status.Connected {
			connected++
		}
	}
	if enabled == 0 {
		return "All servers are disabled"
	}
	return fmt.Sprintf("%d of %d servers connected", connected, enabled)
}

// problem is why the configuration cannot be used. Of its path, which the user knows,
// only the end is left, so that the words are not cut.
func problem(c status.Config) string {
	if c.Path == "" {
		return c.Error
	}
	return strings.ReplaceAll(c.Error, c.Path, filepath.Base(c.Path))
}

// worstShape is the tray's icon: the worst enabled server, or the warning sign
// when the configuration is broken and no server is worse off than that.
func worstShape(s status.Snapshot) assets.Shape {
	worst := status.Worst(slices.DeleteFunc(slices.Clone(s.Servers), func(server status.Server) bool {
		return !server.Enabled
	}))
	if s.Config.Error != "" && worst.Severity() < status.Reconnecting.Severity() {
		return assets.Triangle
	}
	return shape(worst)
}

// shape is the icon of a state.
func shape(s status.State) assets.Shape {
	switch s {
	case status.Disabled:
		return assets.Ring
	case status.Idle:
		return assets.Disc
	case status.Connecting:
		return assets.OpenRing
	case status.Connected:
		return assets.TickDisc
	case status.Reconnecting:
		return assets.Triangle
	case status.NeedsAuth:
		return assets.Key
	case status.SlowProbe, status.Invalid:
		return assets.Octagon
	}
	return assets.Disc
}

// trouble is the last error of a server that has not got over it.
func trouble(s status.Server) string {
	if s.State.Down() || s.State == status.Connecting {
		return s.LastError
	}
	return ""
}

// canReconnect reports whether there is anything to stop or start in state s.
func canReconnect(s status.State) bool {
	return s != status.Disabled && s != status.Idle
}
