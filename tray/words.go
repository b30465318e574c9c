package tray

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"mcp-funnel/core/status"
)

// Longest texts, in runes.
const (
	labelLimit = 80
	bodyLimit  = 300
)

// describe puts the state of a server into words and says for how long they
// stay true; 0 means until something happens.
func describe(s status.Server, now time.Time) (text string, lasts time.Duration) {
	switch s.State {
	case status.Connected:
		return "connected, " + tools(s.Tools), 0
	case status.Reconnecting:
		when, lasts := countdown(s.NextAttemptAt, now)
		return fmt.Sprintf("%s, attempt %d of %d, %s", s.State.Words(), s.Attempt, s.MaxAttempts, when), lasts
	case status.SlowProbe:
		when, lasts := countdown(s.NextAttemptAt, now)
		return s.State.Words() + ", " + when, lasts
	case status.Disabled, status.Idle, status.Connecting, status.NeedsAuth, status.Invalid:
	}
	return s.State.Words(), 0
}

// describeFacts is what is to be known of a server besides its state, as it was at
// a moment; "" where that is nothing. The words change only with the moment, not
// with the clock: each change costs the panel a reading of the whole menu.
func describeFacts(s status.Server, memory int64, at time.Time) string {
	var facts []string
	if s.State != status.Connected {
		if s.State != status.Disabled && s.State != status.Invalid && s.Tools > 0 {
			return tools(s.Tools) + ", as it had them last"
		}
		return ""
	}
	if up := at.Sub(s.Since.Time); !at.IsZero() && !s.Since.IsZero() && up >= 0 {
		facts = append(facts, "up "+span(up))
	}
	if memory > 0 {
		facts = append(facts, fmt.Sprintf("%.1f MiB", float64(memory)/(1<<20)))
	}
	return strings.Join(append(facts, tools(s.Tools)), ", ")
}

// span is a duration as people say it.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// sessionLimit is how many clients are listed; the others are counted.
const sessionLimit = 15

// describeSessions is the title of the list of clients and its lines. The number of
// calls is that of measured, which may be of a moment ago.
func describeSessions(present, measured []status.Session) (title string, lines []string) {
	calls := make(map[string]int64, len(measured))
	for _, s := range measured {
		calls[s.ID] = s.Calls
	}
	for _, s := range present[:min(sessionLimit, len(present))] {
		lines = append(lines, describeSession(s, max(s.Calls, calls[s.ID])))
	}
	if rest := len(present) - sessionLimit; rest > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", rest))
	}
	title = "Sessions: none"
	if n := len(present); n > 0 {
		title = fmt.Sprintf("Sessions: %d", n)
	}
	return title, lines
}

// describeSession is a client: what it calls itself, where it works, what it did.
func describeSession(s status.Session, calls int64) string {
	parts := []string{oneLine(s.Client.Name, labelLimit/2)}
	if parts[0] == "" {
		parts[0] = "a client"
	}
	if s.CWD != "" {
		parts = append(parts, oneLineEnd(s.CWD, labelLimit/2))
	}
	if calls == 1 {
		parts = append(parts, "1 call")
	} else {
		parts = append(parts, fmt.Sprintf("%d calls", calls))
	}
	return oneLine(strings.Join(parts, ", "), labelLimit)
}

// oneLineEnd is oneLine for paths, of which the end says most.
func oneLineEnd(s string, limit int) string {
	line := []rune(oneLine(s, len(s)+1))
	if len(line) <= limit {
		return string(line)
	}
	return "…" + string(line[len(line)-limit+1:])
}

func tools(n int) string {
	if n == 1 {
		return "1 tool"
	}
	return fmt.Sprintf("%d tools", n)
}

// countdown says when the next attempt comes. It does so in steps of ten seconds
// or a minute: each change of the menu costs the panel a redraw, also while
// nobody looks.
func countdown(at status.Time, now time.Time) (text string, lasts time.Duration) {
	const step, longest = 10 * time.Second, 90 * time.Second
	left := at.Sub(now)
	switch {
	case at.IsZero() || left <= 0:
		return "trying now", 0
	case left <= step:
		return "next try in a few seconds", left
	case left <= longest:
		steps := (left + step - 1) / step
		return fmt.Sprintf("next try in %d s", steps*step/time.Second), left - (steps-1)*step
	}
	minutes := (left + time.Minute - 1) / time.Minute
	return fmt.Sprintf("next try in %d min", minutes), left - max(longest, (minutes-1)*time.Minute)
}

// oneLine makes text that came from elsewhere fit for a menu: one line, no
// control characters, none of the marks that reverse the direction of what
// follows, valid UTF-8, and at most limit runes.
func oneLine(s string, limit int) string {
	var line []rune
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			if len(line) == 0 || line[len(line)-1] == ' ' {
				continue
			}
			r = ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			continue
		}
		line = append(line, r)
		if len(line) > limit+1 { // enough to know that it has to be cut
			break
		}
	}
	if n := len(line); n > 0 && line[n-1] == ' ' {
		line = line[:n-1]
	}
	if len(line) > limit {
		return strings.TrimRight(string(line[:limit-1]), " ") + "…"
	}
	return string(line)
}
