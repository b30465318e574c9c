package catalog

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
)

var validName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func TestBudget(t *testing.T) {
	tests := map[string]struct {
		client, registered string
		configured         int
		want               int
	}{
		"Claude Code":               {"claude-code", "funnel", 0, 128 - len("mcp__funnel__")},
		"a client we do not know":   {"cursor-vscode", "funnel", 0, 64 - len("mcp__funnel__")},
		"before initialize":         {"", "funnel", 0, 64 - len("mcp__funnel__")},
		"no name registered":        {"claude-code", "", 0, 128 - len("mcp__funnel__")},
		"another name":              {"claude-code", "my-tools", 0, 128 - len("mcp__my-tools__")},
		"90 characters":             {"claude-code", strings.Repeat("n", 90), 0, 128 - 90 - len("mcp____")},
		"90 characters, unknown":    {"", strings.Repeat("n", 90), 0, shortest},
		"letters, not bytes":        {"claude-code", "trichtër", 0, 128 - len("mcp__") - 8 - len("__")},
		"as JavaScript counts them": {"claude-code", "🚀🚀", 0, 128 - len("mcp__") - 4 - len("__")},
		"by the user":               {"claude-code", "funnel", 40, 40},
		"by the user, larger":       {"", "funnel", 500, 500},
		"by the user, too small":    {"", "funnel", 3, shortest},
	}
	for name, test := range tests {
		if got := Budget(test.client, test.registered, test.configured); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// The names must stay what they are: clients keep permissions under them.
func TestNamesAreTheSameInEveryRun(t *testing.T) {
	long := strings.Repeat("long_", 30)
	tests := []struct {
		prefix, tool string
		budget       int
		want         string
	}{
		{"github", "get_issue", forUnknown, "github__get_issue"},
		{"github", "get-issue", forUnknown, "github__get-issue"},
		{"my_db", "execute_sql", forUnknown, "my_db__execute_sql"},
		{"", "get_issue", forUnknown, "get_issue"},
		{"", "a__b", forUnknown, "a__b"},
		{"a", "b__c", forUnknown, "a__b__c"},
		{"a", "_b", forUnknown, "a___b"},
		{"github", "calendar.respondToEvent", forUnknown, "github__calendar_respondToEvent_be205264"},
		{"my server", "x", forUnknown, "my_server__x_e2a14460"},
		{"a__b", "c", forUnknown, "a__b__c_9b9a0fe6"},
		{"a_", "b", forUnknown, "a___b_895694cb"},
		{"_", "b", forUnknown, "___b_4f072903"},
		{"", "ünï", forUnknown, "_n__d6df3637"},
		{"s", "工具🚀", forUnknown, "s______14793282"},
		{"s", "\xff", forUnknown, "s____978fd1ca"},
		{"s", long, forUnknown, "s__long_long_long_long_long_long_long_long_dc5f0f1b"},
		{"s", long, forClaude, "s__" + strings.Repeat("long_", 20) + "lon_dc5f0f1b"},
		{"s", long, shortest, "s__long_dc5f0f1b"},
	}
	for _, test := range tests {
		if got := newNaming(test.prefix, test.tool).within(test.budget); got != test.want {
			t.Errorf("%q, %q within %d: %q, want %q", test.prefix, test.tool, test.budget, got, test.want)
		}
	}
}

func TestNamesAreAsLongAsTheyMayBe(t *testing.T) {
	for budget := shortest; budget < 150; budget++ {
		for length := 1; length < 160; length++ {
			tool := strings.Repeat("t", length)
			got := newNaming("s", tool).within(budget)
			if full := "s__" + tool; len(full) <= budget && got != full {
				t.Fatalf("%d letters fit into %d, and became %q", len(full), budget, got)
			} else if len(full) > budget && len(got) != budget {
				t.Fatalf("%d letters within %d became %d", len(full), budget, len(got))
			}
		}
	}
}

func TestC18_NamesConsistOfWhatAPIsAllow(t *testing.T) {
	tools := []string{"calendar.respondToEvent", "user-profile/update", "a:b", "mit Leerzeichen", "ünïcødé", "工具", "🚀", "a\"b\\c", "tab\t", "a__b", "-", "_"}
	c := New([]Source{server("s", tools...), server("ser ver.2", tools...), server("工", tools...)}, Filter{})
	for _, budget := range []int{forClaude, forUnknown, shortest} {
		view := c.View(budget)
		if got, want := len(listed(t, view)), 3*len(tools); got != want {
			t.Fatalf("%d tools within %d, want %d", got, budget, want)
		}
		for i, entry := range view.Entries {
			if !validName.MatchString(entry.Name) || len(entry.Name) > budget {
				t.Errorf("%q is no name within %d", entry.Name, budget)
			}
			// The call reaches the server under the tool's own name.
			if route, _ := view.Tool(entry.Name); route.Name != tools[i%len(tools)] {
				t.Errorf("%s leads to %q, want %q", entry.Name, route.Name, tools[i%len(tools)])
			}
		}
	}
}

func TestC20_ShortenedNamesDiffer(t *testing.T) {
	c := New([]Source{server("atlassian-rovo-mcp-server-cloud",
		"createConfluencePageWithAttachmentsAndPermissions", "deleteConfluencePageWithAttachmentsAndPermissions")}, Filter{})
	view := c.View(forUnknown)
	listed(t, view)
	create, remove := view.Entries[0], view.Entries[1]
	if create.Name == remove.Name || len(create.Name) > forUnknown || len(remove.Name) > forUnknown {
		t.Errorf("names %q and %q", create.Name, remove.Name)
	}
	if !strings.HasPrefix(create.Tool, "create") || !strings.HasPrefix(remove.Tool, "delete") {
		t.Errorf("create leads to %s, delete to %s", create.Tool, remove.Tool)
	}
}

func TestC22_SameToolOfTwoServersAndTwiceOfOne(t *testing.T) {
	c := New([]Source{
		server("gmail", "send_email"), server("outlook", "send_email"),
		raw("twice", `{"name":"x","description":"first"}`, `{"name":"y"}`, `{"name":"x","description":"second"}`),
	}, Filter{})
	view := c.View(forClaude)
	listed(t, view)
	if want := []string{"gmail__send_email", "outlook__send_email", "twice__x", "twice__y"}; !slices.Equal(names(view), want) {
		t.Errorf("listed are %q, want %q", names(view), want)
	}
	for name, want := range map[string]string{"gmail__send_email": "gmail", "outlook__send_email": "outlook"} {
		if route, _ := view.Tool(name); route.Server != want || route.Name != "send_email" {
			t.Errorf("%s leads to %+v", name, route)
		}
	}
	if got := view.Entries[2].Description; got != "first" {
		t.Errorf("of two x the %s is listed", got)
	}
}

func TestC23_CallsAreRoutedByTable(t *testing.T) {
	c := New([]Source{server("db", "execute_sql", "a-b_c", "b__c"), server("my_db", "execute_sql"), server("my", "db__execute_sql"), server("db__b", "c")}, Filter{})
	view := c.View(forClaude)
	if got := len(listed(t, view)); got != 6 {
		t.Errorf("%d tools are listed, want 6: %q", got, names(view))
	}
	for name, want := range map[string]Route{
		"db__execute_sql":     {Server: "db", Name: "execute_sql"},
		"db__a-b_c":           {Server: "db", Name: "a-b_c"},
		"db__b__c":            {Server: "db", Name: "b__c"},
		"my_db__execute_sql":  {Server: "my_db", Name: "execute_sql"},
		"my__db__execute_sql": {Server: "my", Name: "db__execute_sql"},
		"db__b__c_cd016bbe":   {Server: "db__b", Name: "c"},
	} {
		if got, ok := view.Tool(name); !ok || got.Server != want.Server || got.Name != want.Name {
			t.Errorf("%s leads to %+v, %v; want %+v", name, got, ok, want)
		}
	}
	for _, name := range []string{"", "execute_sql", "my__execute_sql", "db__", "DB__execute_sql", "db__execute_sql "} {
		if got, ok := view.Tool(name); ok {
			t.Errorf("%q leads to %+v, want nowhere", name, got)
		}
	}
}

func TestC25_NamesLeaveRoomForTheClientsOwnPrefix(t *testing.T) {
	var tools []string
	for length := 55; length <= 70; length++ {
		tools = append(tools, strings.Repeat("t", length-len("s__")))
	}
	tools = append(tools, strings.Repeat("n", 90), strings.Repeat("é", 90), strings.Repeat("🚀", 45), strings.Repeat("n", 300))
	c := New([]Source{server("s", tools...)}, Filter{})
	for client, limit := range map[string]int{"claude-code": ClaudeCodeLimit, "someone": CautiousLimit} {
		for _, registered := range []string{"funnel", "f", "a-longer-name-for-the-funnel", "trichtër"} {
			view := c.View(Budget(client, registered, 0))
			if got := len(listed(t, view)); got != len(tools) {
				t.Errorf("%s, %s: %d tools, want %d", client, registered, got, len(tools))
			}
			for _, name := range names(view) {
				if whole := utf16.Encode([]rune("mcp__" + registered + "__" + name)); len(whole) > limit {
					t.Errorf("%s has %d characters for %s, which allows %d", name, len(whole), client, limit)
				}
			}
		}
	}
	for _, name := range names(c.View(Budget("someone", "funnel", 24))) {
		if len(name) > 24 {
			t.Errorf("%s is longer than the 24 the user set", name)
		}
	}
}

func TestNoTwoToolsShareAName(t *testing.T) {
	tools := []string{"b", "_b", "__b", "b__c", "c", "_c", "b_c", "b.c", "b:c", "b c", "B", strings.Repeat("x", 99), strings.Repeat("x", 100)}
	var sources []Source
	for _, name := range []string{"a", "a_", "a__", "_a", "a__b", "a_b", "a.b", "a b", "_", "__", "a__b_"} {
		sources = append(sources, server(name, tools...))
	}
	c := New(sources, Filter{})
	for _, budget := range []int{forClaude, forUnknown, shortest} {
		if got, want := len(listed(t, c.View(budget))), len(tools)*len(sources); got != want {
			t.Errorf("%d of %d tools are listed within %d", got, want, budget)
		}
	}
}

func TestWithoutAPrefixTheFirstServerWinsAClash(t *testing.T) {
	first, second, third := server("first", "x", "y"), server("second", "x", "z"), server("third__x", "w")
	first.Prefix, second.Prefix = "", ""
	for _, sources := range [][]Source{{first, second, third}, {third, first, second}} {
		view := New(sources, Filter{}).View(forClaude)
		listed(t, view)
		if route, ok := view.Tool("x"); !ok || route.Server != "first" {
			t.Errorf("x leads to %+v, %v; want first", route, ok)
		}
		if len(view.Entries) != 4 {
			t.Errorf("listed are %q, want 4", names(view))
		}
	}
	if route, _ := New([]Source{second, first}, Filter{}).View(forClaude).Tool("x"); route.Server != "second" {
		t.Errorf("x leads to %+v, want second", route)
	}
	// Without the first server the second one has the name.
	first.Tools = nil
	if route, ok := New([]Source{first, second}, Filter{}).View(forClaude).Tool("x"); !ok || route.Server != "second" {
		t.Errorf("x leads to %+v, %v; want second", route, ok)
	}
}
