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
