package tray

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mcp-funnel/assets"
	"mcp-funnel/core/status"
)

// moment is what a picture is made from.
type moment struct {
	snapshot status.Snapshot
	now      time.Time
	// opened: the user has just opened the menu, so that rows may change places.
	opened bool
	// quiet: notifications are switched off.
	quiet bool
}

// memory is what one picture leaves for the next. The zero value is that of a
// tray which has not shown anything.
type memory struct {
	// order is that of the rows, by name.
	order []string
	// told has the faults that were notified and are not over: the state the
	// user was told of, by server.
	told map[string]status.State
	// toldConfig: the configuration's error was notified and is not over.
	toldConfig bool
	// wake is when the picture changes although nothing happens; zero: never.
	wake time.Time
}

// present makes the picture of a moment and the notices due. It changes none of
// its arguments.
func present(at moment, m memory) (model, []Notice, memory) {
	servers := arrange(at.snapshot.Servers, m.order, at.opened)
	picture := model{
		icon:    worstShape(at.snapshot),
		summary: summary(at.snapshot),
		problem: oneLine(at.snapshot.Config.Error, labelLimit),
	}
	picture.tooltip = "MCP Funnel: " + picture.summary
	next := memory{order: make([]string, 0, len(servers))}
	for _, s := range servers {
		text, lasts := describe(s, at.now)
		picture.rows = append(picture.rows, row{
			server:    s.Name,
			label:     oneLine(s.Name+": "+text, labelLimit),
			icon:      shape(s.State),
			err:       oneLine(trouble(s), labelLimit),
			reconnect: canReconnect(s.State),
			enabled:   s.Enabled,
		})
		picture.reconnectAll = picture.reconnectAll || canReconnect(s.State)
		next.order = append(next.order, s.Name)
		if wake := at.now.Add(lasts); lasts > 0 && (next.wake.IsZero() || wake.Before(next.wake)) {
			next.wake = wake
		}
	}
	var notices []Notice
	notices, next.told = serverNotices(at, m.told)
	if problem, due := configNotice(at, m.toldConfig); due {
		notices = append(notices, problem)
	}
	next.toldConfig = at.snapshot.Config.Error != "" && (m.toldConfig || !at.quiet)
	return picture, notices, next
}

// arrange puts servers into the order of the menu: worst first when the menu
// opens or was empty; otherwise as they stood, new ones last, so that nothing
// moves under the user's pointer.
func arrange(servers []status.Server, order []string, opened bool) []status.Server {
	servers = slices.Clone(servers)
	if opened || len(order) == 0 {
		slices.SortStableFunc(servers, func(a, b status.Server) int {
			return cmp.Compare(b.State.Severity(), a.State.Severity())
		})
		return servers
	}
	place := make(map[string]int, len(order))
	for i, name := range order {
		place[name] = i
	}
	rank := func(s status.Server) int {
		if i, ok := place[s.Name]; ok {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(servers, func(a, b status.Server) int { return cmp.Compare(rank(a), rank(b)) })
	return servers
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

// serverNotices compares the servers with the faults told before. It returns the
// notices due and the faults that are told from now on.
func serverNotices(at moment, before map[string]status.State) ([]Notice, map[string]status.State) {
	var notices []Notice
	told := make(map[string]status.State, len(before))
	for _, s := range at.snapshot.Servers {
		known, wasTold := before[s.Name]
		switch s.State {
		case status.SlowProbe, status.NeedsAuth:
			if known != s.State && !at.quiet {
				notices = append(notices, faultNotice(s))
				known, wasTold = s.State, true
			}
			if wasTold {
				told[s.Name] = known
			}
		case status.Connecting, status.Reconnecting:
			if wasTold { // not over: the next connection decides
				told[s.Name] = known
			}
		case status.Connected:
			if wasTold && !at.quiet {
				notices = append(notices, recoveryNotice(s))
			}
		case status.Disabled, status.Idle, status.Invalid:
			// Ended by the user or by an edit, who know it.
		}
	}
	return notices, told
}

// configNotice is due when the configuration became unusable.
func configNotice(at moment, told bool) (Notice, bool) {
	if at.snapshot.Config.Error == "" || told || at.quiet {
		return Notice{}, false
	}
	return Notice{
		Key:   "config",
		Title: "Configuration error",
		Body:  oneLine(at.snapshot.Config.Error, bodyLimit),
		Icon:  assets.Triangle,
	}, true
}
