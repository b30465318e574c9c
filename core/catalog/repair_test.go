package catalog

import (
	"encoding/json"
	"fmt"
	"testing"
)

const emptySchema = `{"type":"object","properties":{}}`

// repaired gives the tool to clients and returns it as they see it.
func repaired(t testing.TB, tool string) map[string]json.RawMessage {
	t.Helper()
	tools := listed(t, New([]Source{raw("s", tool)}, Filter{}).View(forClaude))
	if len(tools) != 1 {
		t.Fatalf("%s: listed %d times", tool, len(tools))
	}
	return tools[0]
}

func checkSchema(t *testing.T, member string, tests map[string]string) {
	t.Helper()
	for schema, want := range tests {
		got := repaired(t, fmt.Sprintf(`{"name":"x","inputSchema":`+emptySchema+`,%q:%s}`, member, schema))
		if member == "inputSchema" {
			got = repaired(t, fmt.Sprintf(`{"name":"x","inputSchema":%s}`, schema))
		}
		if string(got[member]) != want {
			t.Errorf("%s became\n%s, want\n%s", schema, got[member], want)
		}
	}
}

func TestC26_SchemasOfAlternativesAreObjects(t *testing.T) {
	const (
		a = `{"type":"object","properties":{"a":{"type":"string"}}}`
		b = `{"type":"object","properties":{"b":{"type":"string"}}}`
	)
	var tools []string
	for i := range 9 {
		tools = append(tools, fmt.Sprintf(`{"name":"t%d","inputSchema":%s}`, i, a))
	}
	tools = append(tools, `{"name":"t9","inputSchema":{"anyOf":[`+a+`,`+b+`]}}`)
	view := New([]Source{raw("s", tools...)}, Filter{}).View(forClaude)
	list := listed(t, view)
	if len(list) != 10 {
		t.Fatalf("%d tools are listed, want 10", len(list))
	}
	for i, tool := range list {
		var schema struct{ Type string }
		if err := json.Unmarshal(tool["inputSchema"], &schema); err != nil || schema.Type != "object" {
			t.Errorf("tool %d: type %q, %v", i, schema.Type, err)
		}
	}
	if got := string(list[9]["inputSchema"]); got != emptySchema {
		t.Errorf("the one of alternatives became %s", got)
	}
}

func TestC27_NoCombinatorsAtTheRoot(t *testing.T) {
	const nested = `"properties":{"p":{"oneOf":[{"type":"string"},{"type":"null"}],"anyOf":[],"allOf":[]}}`
	checkSchema(t, "inputSchema", map[string]string{
		`{"type":"object","oneOf":[{"required":["a"]}],"properties":{"a":{}}}`: `{"type":"object","properties":{"a":{}}}`,
		`{"type":"object","allOf":[{}],"properties":{},"x":1}`:                 `{"type":"object","properties":{},"x":1}`,
		`{"anyOf":[],"oneOf":[],"allOf":[]}`:                                   emptySchema,
		`{"type":"object","\u006fneOf":[],"properties":{}}`:                    emptySchema,
		`{"type":"object",` + nested + `}`:                                     `{"type":"object",` + nested + `}`,
		`{"type":"object","allOf":[{}],` + nested + `}`:                        `{"type":"object",` + nested + `}`,
	})
}

func TestC29_SchemasAreObjectSchemas(t *testing.T) {
	checkSchema(t, "inputSchema", map[string]string{
		`{}`:                      emptySchema,
		` {  } `:                  emptySchema,
		`{"type":"object"}`:       `{"properties":{},"type":"object"}`,
		`{"properties":{"a":{}}}`: `{"type":"object","properties":{"a":{}}}`,
		`null`:                    emptySchema,
		`true`:                    emptySchema,
		`[]`:                      emptySchema,
		`"object"`:                emptySchema,
		`{"type":["object","null"],"properties":{}}`:   emptySchema,
		`{"type":"string"}`:                            emptySchema,
		`{"type":null,"properties":null}`:              emptySchema,
		`{"type":"object","properties":[]}`:            `{"properties":{},"type":"object"}`,
		`{"additionalProperties":false,"$schema":"x"}`: `{"type":"object","properties":{},"additionalProperties":false,"$schema":"x"}`,
	})
	if got := string(repaired(t, `{"name":"x"}`)["inputSchema"]); got != emptySchema {
		t.Errorf("none became %s", got)
	}
}

func TestOutputSchemas(t *testing.T) {
	checkSchema(t, "outputSchema", map[string]string{
		`{"type":"object","properties":{"a":null}}`: `{"type":"object","properties":{"a":null}}`,
		`{"anyOf":[{"type":"object"}]}`:             `{"type":"object","anyOf":[{"type":"object"}]}`,
		`{}`:                                        `{"type":"object"}`,
		`{"type":null,"required":null,"x":[]}`:      `{"type":"object","x":[]}`,
		// No result can be right by these, of which the specification knows nothing.
		`null`:                       ``,
		`true`:                       ``,
		`{"type":"array"}`:           ``,
		`{"type":["object","null"]}`: ``,
	})
}

func TestNullsAreLeftOut(t *testing.T) {
	tests := []struct{ tool, want string }{
		{
			`{"name":"x","title":null,"description":null,"annotations":null,"outputSchema":null,"_meta":null,"icons":null,"inputSchema":` + emptySchema + `}`,
			`{"name":"x","inputSchema":` + emptySchema + `}`,
		},
		{
			`{"description": null , "name":"x","inputSchema":{"type":"object","properties":{"a":{"default":null}},"required":null,"title": null}}`,
			`{"name":"x","inputSchema":{"type":"object","properties":{"a":{"default":null}}}}`,
		},
		{
			`{"name":"x","annotations":{"title":null,"readOnlyHint":true,"openWorldHint":null},"inputSchema":` + emptySchema + `}`,
			`{"name":"x","annotations":{"readOnlyHint":true},"inputSchema":` + emptySchema + `}`,
		},
		// What is no business of ours keeps its nulls.
		{
			`{"name":"x","_meta":{"a":null},"x-vendor":[null],"inputSchema":` + emptySchema + `}`,
			`{"name":"x","_meta":{"a":null},"x-vendor":[null],"inputSchema":` + emptySchema + `}`,
		},
	}
	for _, test := range tests {
		if got := string(repair([]byte(test.tool))); got != test.want {
			t.Errorf("%s became\n%s, want\n%s", test.tool, got, test.want)
		}
	}
}

// entire has everything a tool can have, in a form that no encoder would choose.
const entire = `{ "title":"T\u00e4",	"name" : "or\u0069ginal" ,"x-vendor":{"big":9007199254740993,"f":1e400,"nul":null,"s":"<&>\u2028"},` +
	`"annotations":{"destructiveHint":true, "title":"a"},"icons":[{"src":"data:,","sizes":["48x48"]}],"_meta":{"k":[1,  2]},` +
	`"inputSchema": {"type":"object", "properties":{"name":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}},"required":["name"],"$defs":{"a":{}}} ,` +
	`"outputSchema":{"type":"object","oneOf":[{"required":null}]},"execution":{"taskSupport":"optional"},"description":"says \"name\":\"original\""	}`

func TestC34_ToolsAreAsTheirServerWroteThem(t *testing.T) {
	view := New([]Source{raw("s", entire)}, Filter{}).View(forClaude)
	listed(t, view)
	const before, after = `{ "title":"T\u00e4",	"name" : `, ` ,"x-vendor":`
	if want := `{"tools":[` + before + `"s__original"` + after + entire[len(before)+len(`"or\u0069ginal"`)+len(after):] + `]}`; listText(view) != want {
		t.Errorf("the list is\n%s, want\n%s", listText(view), want)
	}
	if route, _ := view.Tool("s__original"); string(route.Quoted) != `"or\u0069ginal"` || route.Name != "original" {
		t.Errorf("the server is called with %s for %q", route.Quoted, route.Name)
	}
}

// Where one member must be repaired, all others keep their bytes.
func TestC34_RepairsKeepTheRest(t *testing.T) {
	const (
		broken = `{"icons":null,"_meta":{"k":[1,  2]},"n\u0061me" : "x", "big":9007199254740993,"\ud800":"odd key",` +
			`"inputSchema": {"$schema":"s", "oneOf":[{}], "\u0024defs":{"a" : 1e400}},"description":"ä\/"}`
		want = `{"_meta":{"k":[1,  2]},"n\u0061me":"x","big":9007199254740993,"\ud800":"odd key",` +
			`"inputSchema":{"type":"object","properties":{},"$schema":"s","\u0024defs":{"a" : 1e400}},"description":"ä\/"}`
	)
	if got := string(repair([]byte(broken))); got != want {
		t.Errorf("the tool became\n%s, want\n%s", got, want)
	}
	if got := string(repaired(t, broken)["name"]); got != `"s__x"` {
		t.Errorf("its name is %s", got)
	}
}

func TestRepairLeavesItsInputAlone(t *testing.T) {
	for _, tool := range []string{entire, `{"name":"x"}`, `{"name":"x","a":null,"inputSchema":{"type":null}}`} {
		given := []byte(tool)
		New([]Source{{Server: "s", Prefix: "s", Tools: [][]byte{given}}}, Filter{}).View(forClaude)
		if string(given) != tool {
			t.Errorf("%s became %s", tool, given)
		}
	}
}
