//go:build linux

package main

import (
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   samples
		want time.Duration
	}{
		{nil, 0},
		{samples{7}, 7},
		{samples{9, 1}, 9},
		{samples{9, 1, 5}, 5},
		{samples{4, 3, 2, 1}, 3},
	} {
		before := append(samples(nil), c.of...)
		if got := c.of.median(); got != c.want {
			t.Errorf("%v: %v, want %v", c.of, got, c.want)
		}
		for i := range before {
			if c.of[i] != before[i] {
				t.Errorf("the median put %v into another order: %v", before, c.of)
			}
		}
	}
}

func TestSamplesAreShown(t *testing.T) {
	for want, s := range map[string]samples{
		"–":                        nil,
		"1.5 ms":                   {1500 * time.Microsecond},
		"20 ms (10 ms–1.5 s, N=3)": {20 * time.Millisecond, 1500 * time.Millisecond, 10 * time.Millisecond},
		"90.0 s":                   {90 * time.Second},
	} {
		if got := s.String(); got != want {
			t.Errorf("%#v: %q, want %q", s, got, want)
		}
	}
}
