package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestPattern(t *testing.T) {
	tests := []struct {
		pattern Pattern
		yes, no []string
	}{
		{"", []string{""}, []string{"a"}},
		{"*", []string{"", "a", "a__b"}, nil},
		{"**", []string{"", "a"}, nil},
		{"github__get_issue", []string{"github__get_issue"}, []string{"github__get_issues", "xgithub__get_issue", "GITHUB__get_issue"}},
		{"github__*", []string{"github__", "github__x"}, []string{"github_x", "my_github__x", "github"}},
		{"*__delete", []string{"__delete", "a__delete"}, []string{"a__delete_all", "delete"}},
		{"*delete*", []string{"delete", "undeleted", "a__delete"}, []string{"delet"}},
		{"a*b*c", []string{"abc", "axxbxxc", "abcbc", "abbc"}, []string{"ab", "ac", "acb", "abcd"}},
		{"a*a", []string{"aa", "aaa", "aba"}, []string{"a", "ab"}},
		{"a*ab*b", []string{"aabb", "aabab"}, []string{"aab", "abb"}},
		{"*a*a*", []string{"aa", "xaxax"}, []string{"a", "xax"}},
		{"a.b", []string{"a.b"}, []string{"axb"}},
		{"a?[b]", []string{"a?[b]"}, []string{"ax[b]", "a?b"}},
		{"a__b*", []string{"a__b", "a__bc"}, []string{"a__", "A__B"}},
	}
	for _, test := range tests {
		for _, name := range test.yes {
			if !test.pattern.Matches(name) {
				t.Errorf("%q does not match %q", test.pattern, name)
			}
		}
		for _, name := range test.no {
			if test.pattern.Matches(name) {
				t.Errorf("%q matches %q", test.pattern, name)
			}
		}
	}
}

func TestC133_HiddenToolsCannotBeCalled(t *testing.T) {
	sources := []Source{server("gh", "get_issue", "delete_repo", "calendar.delete", strings.Repeat("long_", 20)+"delete"), server("fs", "read")}
	tests := map[string]struct {
		filter  Filter
		visible []string // parts of the names, in order
	}{
		"no filter":           {Filter{}, []string{"get_issue", "delete_repo", "calendar_delete", "long_", "fs__read"}},
		"hides one":           {Filter{Hide: []string{"gh__delete_repo"}}, []string{"get_issue", "calendar_delete", "long_", "fs__read"}},
		"hides a server":      {Filter{Hide: []string{"gh__*"}}, []string{"fs__read"}},
		"hides all":           {Filter{Hide: []string{"*"}}, nil},
		"exposes nothing":     {Filter{Expose: []string{}}, nil},
		"exposes one":         {Filter{Expose: []string{"fs__read"}}, []string{"fs__read"}},
		"exposes a server":    {Filter{Expose: []string{"fs__*"}}, []string{"fs__read"}},
		"hiding wins":         {Filter{Expose: []string{"gh__*"}, Hide: []string{"*delete*"}}, []string{"get_issue"}},
		"by the own name":     {Filter{Hide: []string{"gh__calendar.delete"}}, []string{"get_issue", "delete_repo", "long_", "fs__read"}},
		"by a part of it":     {Filter{Hide: []string{"*.delete"}}, []string{"get_issue", "delete_repo", "long_", "fs__read"}},
		"by a cut-off end":    {Filter{Hide: []string{"*_delete"}}, []string{"get_issue", "delete_repo", "calendar_delete", "fs__read"}},
		"exposes a cut name":  {Filter{Expose: []string{"*_delete"}}, []string{"long_"}},
		"not by tool alone":   {Filter{Hide: []string{"get_issue", "read"}}, []string{"get_issue", "delete_repo", "calendar_delete", "long_", "fs__read"}},
		"not by other case":   {Filter{Hide: []string{"GH__*"}}, []string{"get_issue", "delete_repo", "calendar_delete", "long_", "fs__read"}},
		"exposes and no more": {Filter{Expose: []string{"gh__get_issue", "nothing"}}, []string{"get_issue"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, budget := range []int{forClaude, forUnknown, shortest + 8} {
				all, view := New(sources, Filter{}).View(budget), New(sources, test.filter).View(budget)
				listed(t, view)
				if len(view.Entries) != len(test.visible) {
					t.Fatalf("within %d: visible are %q, want %q", budget, names(view), test.visible)
				}
				for i, part := range test.visible {
					if entry := view.Entries[i]; !strings.Contains(entry.Name, part) && budget > 30 {
						t.Errorf("within %d: %s is visible, want …%s…", budget, entry.Name, part)
					}
				}
				for _, entry := range all.Entries {
					if _, ok := view.Tool(entry.Name); ok != slices.Contains(names(view), entry.Name) {
						t.Errorf("within %d: %s can be called: %v", budget, entry.Name, ok)
					}
				}
			}
		})
	}
}

// Whoever hides a tool copies its name from somewhere: from the list of the CLI, from
// a client. The name of one and the same tool differs between those.
func TestC133_ANameOfOneClientHidesTheToolFromAll(t *testing.T) {
	sources := []Source{server("gh", strings.Repeat("long_", 20)+"delete"), server("my server", "calendar.delete"), server("gh2", "short")}
	budgets := []int{shortest, 24, forUnknown, 77, forClaude, 500}
	for _, from := range budgets {
		for i, name := range names(New(sources, Filter{}).View(from)) {
			for _, budget := range budgets {
				hidden := New(sources, Filter{Hide: []string{name}}).View(budget)
				if listed(t, hidden); len(hidden.Entries) != 2 || slices.ContainsFunc(hidden.Entries, func(e Entry) bool { return e.Server == sources[i].Server }) {
					t.Errorf("%s of budget %d is open within %d as %q", name, from, budget, names(hidden))
				}
				exposed := New(sources, Filter{Expose: []string{name}}).View(budget)
				if listed(t, exposed); len(exposed.Entries) != 1 || exposed.Entries[0].Server != sources[i].Server {
					t.Errorf("%s of budget %d exposes %q within %d", name, from, names(exposed), budget)
				}
			}
		}
	}
}

// A name that was altered as well as cut: the pattern fits what a client with room for
// all of it sees, and must hold for the one without.
func TestC133_APatternHidesTheToolFromClientsThatSeeLessOfItsName(t *testing.T) {
	sources := []Source{server("gh", "calendar."+strings.Repeat("long_", 10)+"delete")}
	for _, budget := range []int{forClaude, forUnknown, shortest} {
		if view := New(sources, Filter{Hide: []string{"gh__calendar_*_delete_*"}}).View(budget); len(view.Entries) != 0 {
			t.Errorf("within %d %q is open", budget, names(view))
		}
	}
}

func TestHidingDoesNotReachFurther(t *testing.T) {
	n := newNaming("gh", strings.Repeat("long_", 20))
	for _, pattern := range []string{n.hash, "_" + n.hash, "gh__lone_" + n.hash, n.within(50)[:49], n.within(50) + "x", "gh__long_", "long_*"} {
		if n.matches(pattern, n.within(forClaude)) {
			t.Errorf("%q matches %q", pattern, n.full)
		}
	}
	for i := range 50 { // no pattern meets a hash that no client sees
		n := newNaming("gh", fmt.Sprintf("tool_number_%d", i))
		if n.matches("*_"+n.hash[:3]+"*", n.within(forUnknown)) {
			t.Errorf("the hash of %s counts, though nobody sees it", n.full)
		}
	}
}
