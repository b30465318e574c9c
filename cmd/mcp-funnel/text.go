package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// oneLine makes text from a server or a client safe to show: control characters
// and line breaks become spaces, format characters (direction marks) go.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Cf, r):
			return -1
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// shorten is the first line of text, cut at width characters.
func shorten(text string, width int) string {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	runes := []rune(oneLine(first))
	if len(runes) <= width {
		return string(runes)
	}
	return strings.TrimRight(string(runes[:width-1]), " ") + "…"
}

// span is a length of time as people say it: "2 s", "3 min", "1 h 5 min".
func span(d time.Duration) string {
	const day = 24 * time.Hour
	if d = max(d, 0); 0 < d && d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	switch d = d.Round(time.Second); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < day:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
}

// count is a number with its noun: "1 server", "2 servers".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// table aligns rows in columns and returns them as lines.
func table(rows [][]string) []string {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		// A buffer takes everything.
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return lines
}

// writeIndented writes raw JSON as it is, only indented.
func writeIndented(w io.Writer, raw json.RawMessage) error {
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return fmt.Errorf("understanding the answer of the running instance: %w", err)
	}
	out.WriteByte('\n')
	_, err := w.Write(out.Bytes())
	return err
}
