//go:build linux

package main

import (
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFaultsHaveNamesOfTheirOwn(t *testing.T) {
	seen := make(map[string]bool)
	for _, f := range allFaults() {
		if f.name == "" || f.did == "" || f.play == nil || seen[f.name] {
			t.Errorf("%q: no name, nothing done, or there twice", f.name)
		}
		seen[f.name] = true
	}
}

func TestChoose(t *testing.T) {
	all := []fault{{name: "a/one"}, {name: "a/two", long: true}, {name: "b/one"}}
	for _, c := range []struct {
		only  string
		short bool
		want  []string
	}{
		{"", false, []string{"a/one", "a/two", "b/one"}},
		{"", true, []string{"a/one", "b/one"}},
		{"a/", false, []string{"a/one", "a/two"}},
		{"two", true, nil},
	} {
		var got []string
		for _, f := range choose(all, c.only, c.short) {
			got = append(got, f.name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("only %q, short %v: %q, want %q", c.only, c.short, got, c.want)
		}
	}
}

func TestValueOf(t *testing.T) {
	environ := []byte("A=1\x00XA=2\x00B=\x00C=x=y\x00")
	for name, want := range map[string]string{"A": "1", "XA": "2", "B": "", "C": "x=y", "D": ""} {
		if got := valueOf(environ, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
