package catalog

import (
	"encoding/json"
	"fmt"
	"mcp-funnel/core/jsonrpc"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The budgets of clients that have the funnel as "funnel".
var (
	forClaude  = Budget("claude-code", "funnel", 0)
	forUnknown = Budget("", "funnel", 0)
)

// server is a source whose prefix is its name, with tools of these names.
func server(name string, tools ...string) Source {
	s := Source{Server: name, Prefix: name}
	for _, tool := range tools {
		s.Tools = append(s.Tools, fmt.Appendf(nil, `{"name":%s,"inputSchema":{"type":"object","properties":{}}}`, quote(tool)))
	}
	return s
}

func quote(text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return quoted
}

// raw is a source with these tools as they stand.
func raw(name string, tools ...string) Source {
	s := Source{Server: name, Prefix: name}
	for _, tool := range tools {
		s.Tools = append(s.Tools, []byte(tool))
	}
	return s
}

// listed decodes the list of a view with encoding/json, as a client would, and
// checks that entries and routes say the same.
func listed(t testing.TB, v *View) []map[string]json.RawMessage {
	t.Helper()
	var list struct {
		Tools []map[string]json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal([]byte(listText(v)), &list); err != nil || list.Tools == nil {
		t.Fatalf("the list is no list: %v\n%s", err, listText(v))
	}
	if len(list.Tools) != len(v.Entries) || len(list.Tools) != len(v.tools) {
		t.Fatalf("%d tools, %d entries, %d routes", len(list.Tools), len(v.Entries), len(v.tools))
	}
	for i, tool := range list.Tools {
		var name, own string
		entry := v.Entries[i]
		if err := json.Unmarshal(tool["name"], &name); err != nil || name != entry.Name {
			t.Fatalf("tool %d is %s, its entry %q", i, tool["name"], entry.Name)
		}
		route, ok := v.Tool(name)
		if !ok || route.Server != entry.Server || route.Name != entry.Tool {
			t.Fatalf("%s leads to %+v, its entry says %+v", name, route, entry)
		}
		if err := json.Unmarshal(route.Quoted, &own); err != nil || own != route.Name {
			t.Fatalf("%s is called %s there, want %q", name, route.Quoted, route.Name)
		}
	}
	return list.Tools
}

// names are the exposed names of a view, in order.
func names(v *View) (list []string) {
	for _, entry := range v.Entries {
		list = append(list, entry.Name)
	}
	return list
}

// listText is the first page of the tools.
func listText(v *View) string {
	page, _ := v.Tools.Page("")
	return string(page)
}

// jsonSpan is that of nothing.
func jsonSpan() (none jsonrpc.Span) { return none }
