package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"mcp-funnel/core"
	"mcp-funnel/core/status"
)

// describeStatus is the status for people.
func describeStatus(r core.Report, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "MCP Funnel %s, pid %d, %s, up %s\n\n",
		r.Version, r.PID, r.Mode, span(time.Duration(r.UptimeSeconds)*time.Second))
	describeServers(&b, r.Servers, now)
	describeSessions(&b, r.Sessions, now)
	describeTray(&b, r.Tray)
	describeEndpoint(&b, r.HTTP)
	fmt.Fprintf(&b, "Tools:   clients see %d\n", r.ExposedTools)
	fmt.Fprintf(&b, "Socket:  %s\n", r.Socket)
	fmt.Fprintf(&b, "Config:  %s\n", r.Config)
	if r.ConfigError != "" {
		fmt.Fprintf(&b, "  error: %s\n", oneLine(r.ConfigError))
	}
	for _, warning := range r.ConfigWarnings {
		fmt.Fprintf(&b, "  warning: %s\n", oneLine(warning))
	}
	return b.String()
}

// describeServers writes a line for each server and, below those that are in
// trouble, why.
func describeServers(b *strings.Builder, servers []status.Server, now time.Time) {
	if len(servers) == 0 {
		b.WriteString("No servers configured\n\n")
		return
	}
	rows := [][]string{{"SERVER", "STATE", "ATTEMPT", "NEXT TRY", "PID", "MEMORY", "TOOLS"}}
	for _, s := range servers {
		rows = append(rows, []string{
			oneLine(s.Name), s.Words(now), attempt(s), nextTry(s, now), pid(s.PID), memory(s.RSSBytes), tools(s),
		})
	}
	for i, line := range table(rows) {
		b.WriteString(line + "\n")
		if i > 0 {
			describeTrouble(b, servers[i-1])
		}
	}
	b.WriteString("\n")
}

// describeTrouble writes what is to be known about s besides its line.
func describeTrouble(b *strings.Builder, s status.Server) {
	for _, instance := range s.Instances {
		fmt.Fprintf(b, "  %s: %s, pid %s\n", oneLine(instance.Folder), instance.State.Words(), pid(instance.PID))
	}
	if s.State == status.Connected || s.State == status.Disabled {
		return // what went wrong before is over
	}
	if s.LastError != "" {
		fmt.Fprintf(b, "  %s\n", oneLine(s.LastError))
	}
	lines := strings.Split(strings.TrimSpace(s.StderrTail), "\n")
	if last := oneLine(lines[len(lines)-1]); last != "" && !strings.Contains(oneLine(s.LastError), last) {
		fmt.Fprintf(b, "  its last line on stderr: %s\n", last)
	}
}

// none stands in a column where there is nothing to be said.
const none = "-"

func attempt(s status.Server) string {
	switch s.State {
	case status.Reconnecting:
		return fmt.Sprintf("%d of %d", s.Attempt, s.MaxAttempts)
	case status.SlowProbe:
		return fmt.Sprintf("probe %d", s.Attempt)
	case status.Disabled, status.Idle, status.Connecting, status.Connected, status.NeedsAuth, status.Invalid:
	}
	return none
}

func nextTry(s status.Server, now time.Time) string {
	if s.NextAttemptAt.IsZero() {
		return none
	}
	wait := s.NextAttemptAt.Sub(now)
	if wait <= 0 {
		return "now"
	}
	return "in " + span(wait)
}

func pid(n int) string {
	if n == 0 {
		return none
	}
	return strconv.Itoa(n)
}

func memory(bytes int64) string {
	if bytes == 0 {
		return none
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

func tools(s status.Server) string {
	if s.Stale {
		return fmt.Sprintf("%d (stale)", s.Tools)
	}
	return strconv.Itoa(s.Tools)
}

func describeSessions(b *strings.Builder, sessions []status.Session, now time.Time) {
	if len(sessions) == 0 {
		b.WriteString("No sessions\n\n")
		return
	}
	rows := [][]string{{"SESSION", "CLIENT", "PID", "PROTOCOL", "CALLS", "SINCE", "FOLDER"}}
	for _, s := range sessions {
		rows = append(rows, []string{
			s.ID, clientName(s.Client), pid(s.PID), s.ProtocolVersion, strconv.FormatInt(s.Calls, 10),
			span(now.Sub(s.AttachedAt.Time)), oneLine(s.CWD),
		})
	}
	b.WriteString(strings.Join(table(rows), "\n") + "\n\n")
}

// clientName is what a client calls itself.
func clientName(c status.Client) string {
	name := oneLine(c.Name + " " + c.Version)
	if name == "" {
		return none
	}
	return name
}

func describeTray(b *strings.Builder, t status.Tray) {
	switch {
	case t.Shown:
		b.WriteString("Tray:    shown\n")
	case t.Reason != "":
		fmt.Fprintf(b, "Tray:    not shown: %s\n", oneLine(t.Reason))
	default:
		b.WriteString("Tray:    not shown\n")
	}
}
