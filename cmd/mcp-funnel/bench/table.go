package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// table is what is printed at the end.
type table struct {
	path []pathRow
	rest []row
}

// row is a figure beside its goal.
type row struct {
	what, value, goal string
	met               bool
}

// pathRow is a part of the whole-path run.
type pathRow struct {
	row
	alone, relay, funnel string // medians of the single rounds' figures
	spread               string // the middle half of the ratios
}

func (t *table) add(what, value, goal string, met bool) {
	t.rest = append(t.rest, row{what, value, goal, met})
}

// compare adds the whole path: medians over the rounds of the funnel's ratio to the
// relay.
func (t *table) compare(alone, relay, funnel *subject) {
	duration := func(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d)/1e3) }
	for _, part := range []struct {
		what, goal string
		limit      float64
		of         func(sample) time.Duration
	}{
		{"small call", "≤ 1.15", 1.15, func(s sample) time.Duration { return s.small }},
		{"1 MB answer", "≤ 1.5", 1.5, func(s sample) time.Duration { return s.large }},
		{fmt.Sprintf("list of %d tools", manyTools), "≤ 1.3", 1.3, func(s sample) time.Duration { return s.list }},
	} {
		value := func(s sample) float64 { return float64(part.of(s)) }
		r := pathRow{
			alone:  duration(time.Duration(typical(alone, value))),
			relay:  duration(time.Duration(typical(relay, value))),
			funnel: duration(time.Duration(typical(funnel, value))),
		}
		r.fill(part.what, part.goal, relay, funnel, value, func(ratio float64) bool { return ratio <= part.limit })
		t.path = append(t.path, r)
	}
	rate := func(s sample) float64 { return s.rate }
	perSecond := func(s *subject) string { return fmt.Sprintf("%.0f/s", typical(s, rate)) }
	r := pathRow{alone: perSecond(alone), relay: perSecond(relay), funnel: perSecond(funnel)}
	r.fill(fmt.Sprintf("small calls, %d callers", callers), "≥ 0.8", relay, funnel, rate, func(ratio float64) bool { return ratio >= 0.8 })
	t.path = append(t.path, r)
}

// typical is the median of a figure over the rounds.
func typical(s *subject, value func(sample) float64) float64 {
	var all []float64
	for _, r := range s.rounds {
		all = append(all, value(r))
	}
	return median(all)
}

// fill works out the ratio of the funnel to the relay, each round for itself.
func (r *pathRow) fill(what, goal string, relay, funnel *subject, value func(sample) float64, good func(float64) bool) {
	var ratios []float64
	for i := range funnel.rounds {
		ratios = append(ratios, value(funnel.rounds[i])/value(relay.rounds[i]))
	}
	low, middle, high := quartiles(ratios)
	r.row = row{what, fmt.Sprintf("%.2f", middle), goal, good(middle)}
	r.spread = fmt.Sprintf("%.2f–%.2f", low, high)
}

func (t *table) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	lines := []string{"", "the whole path\tserver alone\tbyte relay\tfunnel\tratio to relay\tmiddle half\tgoal\t"}
	for _, r := range t.path {
		lines = append(lines, strings.Join([]string{r.what, r.alone, r.relay, r.funnel, r.value, r.spread, r.goal, verdict(r.met)}, "\t"))
	}
	lines = append(lines, "", "at rest, and within\tmeasured\tgoal\t")
	for _, r := range t.rest {
		lines = append(lines, strings.Join([]string{r.what, r.value, r.goal, verdict(r.met)}, "\t"))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	return w.Flush()
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}
