package catalog

import (
	"encoding/json"
	"strings"
	"testing"
)

// elements are the elements of the first page of a list.
func elements(t *testing.T, l List, member string) []string {
	t.Helper()
	page, _ := l.Page("")
	var result map[string][]json.RawMessage
	if err := json.Unmarshal(page, &result); err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	var list []string
	for _, element := range result[member] {
		list = append(list, string(element))
	}
	return list
}

func raws(texts ...string) [][]byte {
	var list [][]byte
	for _, text := range texts {
		list = append(list, []byte(text))
	}
	return list
}

// URIs are unchanged, and lead to the server that has them; the same one of another
// server is told apart.
func TestResourcesKeepTheirURIsAndAreToldApart(t *testing.T) {
	one := `{"uri":"file:///a","name":"A","x":9007199254740993}`
	view := New([]Source{
		{Server: "first", Resources: raws(one, `{"uri":"mem://1","name":"m"}`, `{"name":"no uri"}`)},
		{Server: "the second", Resources: raws(one, `{"uri":"db://t","name":"t","description":null}`)},
	}, Filter{}).View(forUnknown)
	list := elements(t, view.Resources, "resources")
	want := []string{
		one, `{"uri":"mem://1","name":"m"}`,
		`{"uri":"mcp-funnel://the%20second/file:///a","name":"A","x":9007199254740993}`, `{"uri":"db://t","name":"t"}`,
	}
	if strings.Join(list, "\n") != strings.Join(want, "\n") {
		t.Errorf("the list is\n%s\nwant\n%s", strings.Join(list, "\n"), strings.Join(want, "\n"))
	}
	for uri, want := range map[string]Route{
		"file:///a": {Server: "first", Name: "file:///a"}, "mcp-funnel://the%20second/file:///a": {Server: "the second", Name: "file:///a"},
		"mcp-funnel://the%20second/not/listed": {Server: "the second", Name: "not/listed"},
		"db://other":                           {Server: "the second", Name: "db://other"}, "mem://2": {Server: "first", Name: "mem://2"},
	} {
		got, ok := view.Resource(uri)
		if !ok || got.Server != want.Server || got.Name != want.Name {
			t.Errorf("%s leads to %+v, want %+v", uri, got, want)
		}
		var quoted string
		if err := json.Unmarshal(got.Quoted, &quoted); err != nil || quoted != want.Name {
			t.Errorf("%s is %s there", uri, got.Quoted)
		}
	}
	for _, uri := range []string{"https://nobody", "file:///b", "", "mcp-funnel://nobody/x"} {
		if got, ok := view.Resource(uri); ok && uri != "file:///b" { // that one is like those of the first
			t.Errorf("%q leads to %+v", uri, got)
		}
	}
}

func TestTemplatesLeadToTheirServer(t *testing.T) {
	view := New([]Source{
		{Server: "a", Templates: raws(`{"uriTemplate":"repo://{owner}/{name}","name":"r"}`, `{"uriTemplate":"x://{y}","name":"x"}`)},
		{Server: "b", Templates: raws(`{"uriTemplate":"repo://special/{name}","name":"s"}`, `{"uriTemplate":"x://{y}","name":"other"}`)},
	}, Filter{}).View(forUnknown)
	for uri, server := range map[string]string{"repo://me/x": "a", "repo://special/x": "b", "x://1": "a", "mcp-funnel://b/x://1": "b"} {
		if got, ok := view.Resource(uri); !ok || got.Server != server {
			t.Errorf("%s leads to %+v, want %s", uri, got, server)
		}
	}
	for text, want := range map[string]Route{
		"x://{y}": {Server: "a", Name: "x://{y}"}, "mcp-funnel://b/x://{y}": {Server: "b", Name: "x://{y}"},
	} {
		if got, ok := view.Template(text); !ok || got.Server != want.Server || got.Name != want.Name {
			t.Errorf("template %s leads to %+v", text, got)
		}
	}
	list := elements(t, view.Templates, "resourceTemplates")
	if len(list) != 4 || !strings.Contains(list[3], `"mcp-funnel://b/x://{y}"`) {
		t.Errorf("templates %s", list)
	}
}

func TestPromptsAreNamedLikeTools(t *testing.T) {
	view := New([]Source{{Server: "s", Prefix: "s", Prompts: raws(`{"name":"greet","arguments":[{"name":"x","required":true}],"title":null}`, `{"name":"a.b"}`)}}, Filter{}).View(forUnknown)
	list := elements(t, view.Prompts, "prompts")
	altered := newNaming("s", "a.b").within(forUnknown)
	if len(list) != 2 || list[0] != `{"name":"s__greet","arguments":[{"name":"x","required":true}]}` || list[1] != `{"name":"`+altered+`"}` {
		t.Errorf("prompts %s", list)
	}
	for name, own := range map[string]string{"s__greet": "greet", altered: "a.b"} {
		if got, ok := view.Prompt(name); !ok || got.Name != own || got.Server != "s" {
			t.Errorf("%s leads to %+v", name, got)
		}
	}
	if _, ok := view.Tool("s__greet"); ok {
		t.Error("a prompt can be called as a tool")
	}
}

func TestInstructionsStandUnderTheirServersName(t *testing.T) {
	got := New([]Source{
		{Server: "a", Instructions: " Use me first.\n"}, {Server: "b"}, {Server: "c", Instructions: "And me\nlast."},
	}, Filter{}).Instructions()
	if want := "# a\n\nUse me first.\n\n# c\n\nAnd me\nlast."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A list that is too long for one message comes in pages, none of which is lost.
func TestLongListsComeInPages(t *testing.T) {
	big := strings.Repeat("x", 3<<20)
	l := newLister("tools")
	for range 12 {
		l.add([]byte(`{"name":"`+big+`"}`), jsonSpan(), "")
	}
	list := l.list()
	var cursor string
	seen, pages := 0, 0
	for {
		page, ok := list.Page(cursor)
		if !ok {
			t.Fatalf("no page at %q", cursor)
		}
		pages++
		var result struct {
			Tools      []json.RawMessage
			NextCursor string
		}
		if err := json.Unmarshal(page, &result); err != nil {
			t.Fatal(err)
		}
		seen += len(result.Tools)
		if cursor = result.NextCursor; cursor == "" {
			break
		}
	}
	if seen != 12 || pages < 3 {
		t.Errorf("%d elements in %d pages", seen, pages)
	}
	for _, cursor := range []string{"99", "0", "-1", "x"} {
		if _, ok := list.Page(cursor); ok {
			t.Errorf("there is a page at %q", cursor)
		}
	}
}
