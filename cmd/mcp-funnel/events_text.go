package main

import (
	"fmt"
	"strings"
	"time"

	"mcp-funnel/core/status"
)

// describeEvent is an event as a line for people, such as
// "15:04:05 server.reconnecting github attempt 2 of 10, next try in 2 s: refused".
// It says whatever the event carries, so that it need not know each kind.
func describeEvent(e status.Event) string {
	words := []string{e.Time.Local().Format(time.TimeOnly), oneLine(e.Name)}
	if e.Server != "" {
		words = append(words, oneLine(e.Server))
	}
	facts := append(progressFacts(e), peerFacts(e)...)
	if e.Name == status.EventConfigReloaded {
		facts = append(facts, describeChanges(e.Added, e.Removed, e.Changed))
	}
	if len(facts) > 0 {
		words = append(words, strings.Join(facts, ", "))
	}
	clauses := []string{strings.Join(words, " ")}
	for _, text := range []string{e.Title, e.Message, e.Error} {
		if text != "" {
			clauses = append(clauses, oneLine(text))
		}
	}
	return strings.Join(clauses, ": ")
}

// progressFacts are those about the attempts to reach a server.
func progressFacts(e status.Event) []string {
	var facts []string
	add := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	if e.Attempt > 0 {
		add("attempt %d of %d", e.Attempt, e.MaxAttempts)
	}
	if e.N > 0 {
		add("probe %d", e.N)
	}
	if e.NextRetryMs != nil {
		add("next try in %s", span(milliseconds(*e.NextRetryMs)))
	}
	if e.ProbeIntervalMs != nil {
		add("one try every %s", span(milliseconds(*e.ProbeIntervalMs)))
	}
	if e.DownMs != nil {
		add("after %s", span(milliseconds(*e.DownMs)))
	}
	if e.Restarts > 0 {
		add("restart %d", e.Restarts)
	}
	if e.Reason != "" {
		add("%s", oneLine(e.Reason))
	}
	if e.ExitCode != nil {
		add("exit code %d", *e.ExitCode)
	}
	return facts
}

// peerFacts are those about the server or client at the other end.
func peerFacts(e status.Event) []string {
	var facts []string
	if e.Client != nil {
		facts = append(facts, clientName(*e.Client))
	}
	if e.PID != 0 {
		facts = append(facts, fmt.Sprintf("pid %d", e.PID))
	}
	if e.Session != "" {
		facts = append(facts, "session "+oneLine(e.Session))
	}
	if e.ProtocolVersion != "" {
		facts = append(facts, "MCP "+oneLine(e.ProtocolVersion))
	}
	if e.Tools != nil {
		facts = append(facts, count(*e.Tools, "tool"))
	}
	return facts
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
