package tray

import (
	"fmt"
	"slices"
	"testing"

	"mcp-funnel/assets"
)

// fakeItem records the calls it gets.
type fakeItem struct{ calls []string }

func (f *fakeItem) add(format string, args ...any) {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}
func (f *fakeItem) SetTitle(s string) { f.add("title %s", s) }
func (f *fakeItem) SetIcon(b []byte)  { f.add("icon %s", b) }
func (f *fakeItem) Enable()           { f.add("enable") }
func (f *fakeItem) Disable()          { f.add("disable") }
func (f *fakeItem) Check()            { f.add("check") }
func (f *fakeItem) Uncheck()          { f.add("uncheck") }
func (f *fakeItem) Show()             { f.add("show") }
func (f *fakeItem) Hide()             { f.add("hide") }

func (f *fakeItem) take() []string {
	calls := f.calls
	f.calls = nil
	return calls
}

func TestEntryCallsTheLibraryOnlyForChanges(t *testing.T) {
	item := &fakeItem{}
	e := newEntry(item, look{})
	drawn := func(s assets.Shape) []byte { return []byte(s.String()) }
	for i, step := range []struct {
		do   func()
		want []string
	}{
		{func() { e.hide() }, []string{"hide"}},
		{func() { e.hide() }, nil},
		{func() { e.showUnlessEmpty(look{}) }, nil},
		{func() { e.show(look{title: "a", disabled: true}) }, []string{"title a", "disable", "show"}},
		{func() { e.show(look{title: "a", disabled: true}) }, nil},
		{func() { e.show(look{title: "a", checked: true}) }, []string{"enable", "check"}},
		{func() { e.show(look{title: "b"}) }, []string{"title b", "uncheck"}},
		{func() { e.showWithIcon(look{title: "b"}, assets.Ring, drawn) }, []string{"icon ring"}},
		{func() { e.showWithIcon(look{title: "b"}, assets.Ring, drawn) }, nil},
		{func() { e.showWithIcon(look{title: "c"}, assets.Key, drawn) }, []string{"icon key", "title c"}},
		{func() { e.showUnlessEmpty(look{}) }, []string{"hide"}},
		{func() { e.showUnlessEmpty(look{title: "c"}) }, []string{"show"}},
	} {
		step.do()
		if got := item.take(); !slices.Equal(got, step.want) {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}
