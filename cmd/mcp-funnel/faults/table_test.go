//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func example() *report {
	return &report{
		rows: []row{
			{"a/b", "kill -9", "1 ms", "2 ms", "0", passed, nil, []string{"by the way"}},
			{"a/c", "x | y", "–", "–", "1", failed, []string{"took\n5 s"}, nil},
			{"a/d", "z", "–", "–", "0", skipped, []string{"needs root"}, nil},
		},
		figures: []figure{{"goroutines", "9", "≤ 10", true}, {"quit", "12 s", "≤ 10 s", false}},
	}
}

func TestReportIsPrinted(t *testing.T) {
	var out strings.Builder
	if err := example().print(&out); err != nil {
		t.Fatal(err)
	}
	want := `fault  what was done  noticed after  usable again after  left over  
a/b    kill -9        1 ms           2 ms                0          ok
a/c    x | y          –              –                   1          FAILED
a/d    z              –              –                   0          skipped

number      measured  goal    
goroutines  9         ≤ 10    ok
quit        12 s      ≤ 10 s  FAILED

a/b: by the way
a/c, FAILED: took
5 s
a/d, skipped: needs root
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReportAsMarkdown(t *testing.T) {
	want := `# What happens when something breaks

About it.

| fault | what was done | noticed after | usable again after | left over |  |
|---|---|---|---|---|---|
| a/b | kill -9 | 1 ms | 2 ms | 0 | ok |
| a/c | x \| y | – | – | 1 | FAILED |
| a/d | z | – | – | 0 | skipped |

| number | measured | goal |  |
|---|---|---|---|
| goroutines | 9 | ≤ 10 | ok |
| quit | 12 s | ≤ 10 s | FAILED |

- a/b: by the way
- a/c, FAILED: took 5 s
- a/d, skipped: needs root
`
	if diff := cmp.Diff(want, example().markdown("About it.")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestFailuresCountFailedRowsOnly(t *testing.T) {
	if got := example().failures(); got != 1 {
		t.Errorf("%d, want 1", got)
	}
}

func TestVerdictOfATrial(t *testing.T) {
	for name, c := range map[string]struct {
		play func(*trial)
		err  error
		want verdict
		why  []string
	}{
		"fine":     {func(t *trial) { t.within("it", time.Second, time.Second) }, nil, passed, nil},
		"slow":     {func(t *trial) { t.within("it", 4*time.Second, time.Second) }, nil, failed, []string{"it took 4.0 s, at most 3.0 s is right"}},
		"slack":    {func(t *trial) { t.within("it", 3*time.Second, time.Second) }, nil, passed, nil},
		"text":     {func(t *trial) { t.contains("it", "abc", "b", "x") }, nil, failed, []string{`it is "abc", without "x"`}},
		"answered": {func(t *trial) { t.refused("it", nil) }, nil, failed, []string{"it: want an error as its answer, got <nil>"}},
		"refused":  {func(t *trial) { t.refused("it", &answerError{"no"}, "no") }, nil, passed, nil},
		"missed":   {func(t *trial) { t.figure("n", "2", "1", false) }, nil, failed, []string{"n: 2, the goal is 1"}},
		"skipped":  {func(*trial) {}, skip("no %s", "root"), skipped, []string{"no root"}},
		"broken":   {func(*trial) {}, errors.New("gone"), failed, []string{"gone"}},
		"remarked": {func(t *trial) { t.remark("by the way") }, nil, passed, nil},
	} {
		one := &trial{slack: 3}
		c.play(one)
		got := one.row(c.err, 0)
		if got.verdict != c.want || !cmp.Equal(got.why, c.why) {
			t.Errorf("%s: %s %q, want %s %q", name, got.verdict, got.why, c.want, c.why)
		}
	}
}
