package catalog

import (
	"slices"
	"sync"
	"testing"
)

func TestAnEmptyCatalog(t *testing.T) {
	for _, c := range []*Catalog{New(nil, Filter{}), New([]Source{{Server: "s", Prefix: "s"}}, Filter{}), New([]Source{server("s", "x")}, Filter{Expose: []string{}})} {
		view := c.View(forUnknown)
		if got := listText(view); got != `{"tools":[]}` || len(view.Entries) != 0 {
			t.Errorf("the list is %s, entries %v", got, view.Entries)
		}
		if route, ok := view.Tool("s__x"); ok {
			t.Errorf("s__x leads to %+v", route)
		}
	}
}

func TestToolsKeepTheirOrder(t *testing.T) {
	view := New([]Source{server("z", "c", "a"), server("a", "b"), server("m", "z", "a")}, Filter{}).View(forUnknown)
	listed(t, view)
	if want := []string{"z__c", "z__a", "a__b", "m__z", "m__a"}; !slices.Equal(names(view), want) {
		t.Errorf("listed are %q, want %q", names(view), want)
	}
}

func TestWhatIsNoToolIsLeftOut(t *testing.T) {
	view := New([]Source{raw("s",
		`null`, `7`, `"x"`, `[]`, `{}`, ``, `{"description":"no name"}`, `{"name":null}`, `{"name":7}`, `{"name":""}`, `{"name":"\x"}`,
		`{"name":"one","name":"other"}`, `{"name":"good"}`)}, Filter{}).View(forUnknown)
	listed(t, view)
	if want := []string{"s__good"}; !slices.Equal(names(view), want) {
		t.Errorf("listed are %q, want %q", names(view), want)
	}
}

// A name that is no UTF-8 goes back to its server as the bytes that it sent.
func TestNamesOfOddBytesAreKept(t *testing.T) {
	view := New([]Source{raw("s", "{\"name\":\"\xa3\"}", "{\"name\":\"\xa4\"}")}, Filter{}).View(forUnknown)
	for i, want := range []string{"\"\xa3\"", "\"\xa4\""} {
		if route, _ := view.Tool(view.Entries[i].Name); string(route.Quoted) != want {
			t.Errorf("%s leads to %q, want %q", view.Entries[i].Name, route.Quoted, want)
		}
	}
}

func TestEntriesDescribeTools(t *testing.T) {
	view := New([]Source{raw("s", `{"name":"a","description":"says \"hi\""}`, `{"name":"b","description":7}`, `{"name":"c.d","description":null}`)}, Filter{}).View(forUnknown)
	listed(t, view)
	want := []Entry{
		{Name: "s__a", Server: "s", Tool: "a", Description: `says "hi"`},
		{Name: "s__b", Server: "s", Tool: "b"},
		{Name: newNaming("s", "c.d").within(forUnknown), Server: "s", Tool: "c.d"},
	}
	if !slices.Equal(view.Entries, want) {
		t.Errorf("entries %+v, want %+v", view.Entries, want)
	}
}

func TestPrefixAndServerNameMayDiffer(t *testing.T) {
	s := server("my server", "x")
	s.Prefix = "mine"
	if route, ok := New([]Source{s}, Filter{}).View(forUnknown).Tool("mine__x"); !ok || route.Server != "my server" || string(route.Quoted) != `"x"` {
		t.Errorf("mine__x leads to %+v, %v", route, ok)
	}
}

func TestViewsAreMadeOnce(t *testing.T) {
	c := New([]Source{server("s", "a", "b")}, Filter{})
	var got [20]*View
	var asking sync.WaitGroup
	for i := range got {
		asking.Go(func() {
			got[i] = c.View(forUnknown + i%2)
			_, _ = got[i].Tool("s__a")
		})
	}
	asking.Wait()
	for i := range got {
		if got[i] != got[i%2] {
			t.Errorf("view %d was made again", i)
		}
	}
	if got[0] == got[1] {
		t.Error("two budgets share a view")
	}
}

func TestTheSameSourcesGiveTheSameList(t *testing.T) {
	sources := []Source{raw("s", entire), server("a__b", "x", "ü"), server("c", "x")}
	first := New(sources, Filter{Hide: []string{"c__*"}}).View(forUnknown)
	for range 5 {
		if again := New(sources, Filter{Hide: []string{"c__*"}}).View(forUnknown); listText(again) != listText(first) {
			t.Fatalf("first\n%s, then\n%s", listText(first), listText(again))
		}
	}
}
