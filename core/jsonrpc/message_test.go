package jsonrpc

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParseFindsTheMembers(t *testing.T) {
	type parts struct {
		kind                              Kind
		id, method, params, result, fault string
	}
	tests := map[string]struct {
		line string
		want parts
	}{
		"request":               {`{"jsonrpc":"2.0","id":1,"method":"ping"}`, parts{Request, `1`, `"ping"`, ``, ``, ``}},
		"id of text":            {`{"id":"a b","method":"ping"}`, parts{Request, `"a b"`, `"ping"`, ``, ``, ``}},
		"empty text id":         {`{"id":"","method":"ping"}`, parts{Request, `""`, `"ping"`, ``, ``, ``}},
		"negative id":           {`{"id":-7,"method":"ping"}`, parts{Request, `-7`, `"ping"`, ``, ``, ``}},
		"id beyond 64 bits":     {`{"id":123456789012345678901234567890,"method":"m"}`, parts{Request, `123456789012345678901234567890`, `"m"`, ``, ``, ``}},
		"fractional id":         {`{"id":1.50,"method":"m"}`, parts{Request, `1.50`, `"m"`, ``, ``, ``}},
		"members in any order":  {`{"params":{"a":[1,2]},"method":"m","id":1,"jsonrpc":"2.0"}`, parts{Request, `1`, `"m"`, `{"a":[1,2]}`, ``, ``}},
		"params by position":    {`{"id":1,"method":"m","params":[1]}`, parts{Request, `1`, `"m"`, `[1]`, ``, ``}},
		"params null":           {`{"id":1,"method":"m","params":null}`, parts{Request, `1`, `"m"`, `null`, ``, ``}},
		"notification":          {`{"method":"n","params":{}}`, parts{Notification, ``, `"n"`, `{}`, ``, ``}},
		"result":                {`{"id":1,"result":{"x":"}"}}`, parts{Response, `1`, ``, ``, `{"x":"}"}`, ``}},
		"result null":           {`{"id":1,"result":null}`, parts{Response, `1`, ``, ``, `null`, ``}},
		"error":                 {`{"id":1,"error":{"code":1}}`, parts{Response, `1`, ``, ``, ``, `{"code":1}`}},
		"error to no request":   {`{"id":null,"error":{"code":-32700}}`, parts{Response, `null`, ``, ``, ``, `{"code":-32700}`}},
		"white space all about": {" \t{ \"id\" : 1 ,\r\"method\"\t: \"m\" , \"params\" : { \"a\" : 1 } } \r", parts{Request, `1`, `"m"`, `{ "a" : 1 }`, ``, ``}},
		"keys with escapes":     {`{"\u0069d":1,"meth\u006fd":"m"}`, parts{Request, `1`, `"m"`, ``, ``, ``}},
		"method with escapes":   {`{"id":1,"method":"a\"b"}`, parts{Request, `1`, `"a\"b"`, ``, ``, ``}},
		"keys are case exact":   {`{"ID":2,"Method":"x","method":"m"}`, parts{Notification, ``, `"m"`, ``, ``, ``}},
		"same keys deeper down": {`{"x":{"id":9,"method":"no"},"id":1,"method":"m"}`, parts{Request, `1`, `"m"`, ``, ``, ``}},
		"unknown members":       {`{"_x":[true,false,null,-1.5e+3,"\\"],"id":1,"method":"m","y":{}}`, parts{Request, `1`, `"m"`, ``, ``, ``}},
		"quotes and slashes":    {`{"id":"\\","method":"\\\"","params":{"\\":"\\\\\""}}`, parts{Request, `"\\"`, `"\\\""`, `{"\\":"\\\\\""}`, ``, ``}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := mustParse(t, test.line)
			got := parts{m.Kind, string(m.ID.Of(m.Raw)), string(m.Method.Of(m.Raw)), string(m.Params.Of(m.Raw)), string(m.Result.Of(m.Raw)), string(m.Error.Of(m.Raw))}
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if string(m.Raw) != strings.TrimSpace(test.line) {
				t.Errorf("Raw = %q", m.Raw)
			}
		})
	}
}

func TestParseRefusesWhatIsNoJSON(t *testing.T) {
	tests := map[string]struct {
		line, want string
		offset     int
	}{
		"nothing":            {``, "a value", 0},
		"blank":              {" \t ", "a value", 0},
		"words":              {`npm warn exec`, "a value", 0},
		"cut off":            {`{"id":1,"method":"m"`, "a comma or a closing bracket", 20},
		"cut in a string":    {`{"id":1,"method":"m`, "the end of a string", 17},
		"escaped last quote": {`{"id":"\\\"}`, "the end of a string", 6},
		"cut in a key":       {`{"id":1,`, "a string", 8},
		"no colon":           {`{"id" 1}`, "a colon", 6},
		"no value":           {`{"id":}`, "a value", 6},
		"comma too many":     {`{"id":1,}`, "a string", 8},
		"comma in front":     {`{,"id":1}`, "a string", 1},
		"element missing":    {`{"id":1,"x":[1,]}`, "a value", 15},
		"no comma":           {`{"id":1 "x":2}`, "a comma or a closing bracket", 8},
		"wrong bracket":      {`{"x":[1}`, "a comma or a closing bracket", 7},
		"text behind":        {`{"id":1,"method":"m"} x`, "the end of the line", 21},
		"two on a line":      {`{"method":"m"}{"method":"m"}`, "the end of the line", 14},
		"text behind array":  {`[1] 2`, "the end of the line", 3},
		"half a literal":     {`{"x":nul}`, "a value", 5},
		"literal too long":   {`{"x":trueish}`, "a comma or a closing bracket", 9},
		"key without quotes": {`{id:1}`, "a string", 1},
		"single quotes":      {`{'id':1}`, "a string", 1},
		"byte order mark":    {"\xef\xbb\xbf{}", "a value", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(test.line))
			syntax, ok := errors.AsType[*SyntaxError](err)
			if !ok {
				t.Fatalf("err = %v, want a SyntaxError", err)
			}
			if syntax.Want != test.want || syntax.Offset != test.offset {
				t.Errorf("%q expected at %d, want %q at %d", syntax.Want, syntax.Offset, test.want, test.offset)
			}
		})
	}
}

func TestParseRefusesJSONThatIsNoMessage(t *testing.T) {
	tests := map[string]struct{ line, problem, id string }{
		"batch":              {`[{"id":1,"method":"m"}]`, "it is not an object", ""},
		"string":             {`"x"`, "it is not an object", ""},
		"number":             {`7`, "it is not an object", ""},
		"null":               {`null`, "it is not an object", ""},
		"empty object":       {`{}`, "it has neither a method nor a result", ""},
		"only an id":         {`{"id":3}`, "it has neither a method nor a result", "3"},
		"result without id":  {`{"result":{}}`, "it has neither a method nor a result", ""},
		"error without id":   {`{"error":{}}`, "it has neither a method nor a result", ""},
		"method of number":   {`{"id":"q","method":7}`, "its method is not a string", `"q"`},
		"method null":        {`{"id":4,"method":null}`, "its method is not a string", "4"},
		"id null":            {`{"id":null,"method":"m"}`, "its id is neither a string nor a number", ""},
		"id null of result":  {`{"id":null,"result":{}}`, "its id is neither a string nor a number", ""},
		"id of object":       {`{"id":{},"method":"m"}`, "its id is neither a string nor a number", ""},
		"id true":            {`{"id":true,"method":"m"}`, "its id is neither a string nor a number", ""},
		"two ids":            {`{"id":1,"method":"m","id":2}`, `it has "id" twice`, ""},
		"two params":         {`{"id":1,"params":{},"method":"m","params":{}}`, `it has "params" twice`, ""},
		"two ids, disguised": {`{"id":1,"method":"m","\u0069d":2}`, `it has "\u0069d" twice`, ""},
		"two methods":        {`{"method":"m","method":"m"}`, `it has "method" twice`, ""},
		"two results":        {`{"id":1,"result":1,"result":2}`, `it has "result" twice`, ""},
		"two errors":         {`{"id":1,"error":1,"error":2}`, `it has "error" twice`, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(test.line))
			invalid, ok := errors.AsType[*InvalidError](err)
			if !ok {
				t.Fatalf("err = %v, want an InvalidError", err)
			}
			if invalid.Problem != test.problem || string(invalid.ID) != test.id {
				t.Errorf("problem %q, id %q; want %q, %q", invalid.Problem, invalid.ID, test.problem, test.id)
			}
		})
	}
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		`{"id":1,}`: "not JSON: a string expected at byte 8",
		`{"id":1}`:  "not a JSON-RPC message: it has neither a method nor a result",
	} {
		if _, err := Parse([]byte(line)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

func TestParseRefusesDeepNesting(t *testing.T) {
	nested := func(depth int) string {
		// The message itself is the first level.
		return `{"method":"m","params":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
	}
	if _, err := Parse([]byte(nested(maxDepth))); err != nil {
		t.Errorf("%d levels: %v", maxDepth, err)
	}
	for _, line := range []string{
		nested(maxDepth + 1),
		`{"method":"m","x":` + strings.Repeat(`{"a":`, 5_000_000),
		strings.Repeat("[", 5_000_000),
	} {
		syntax, ok := errors.AsType[*SyntaxError](func() error { _, err := Parse([]byte(line)); return err }())
		if !ok || syntax.Want != "less nesting" {
			t.Errorf("%.30s…: %v, want less nesting", line, syntax)
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	request := []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"a__b","arguments":{"x":[1,2]}}}`)
	if n := testing.AllocsPerRun(100, func() {
		m, err := Parse(request)
		if err != nil || m.Kind != Request {
			t.Fatalf("Parse: %v", err)
		}
		if _, ok := Lookup(m.Raw, m.Params, "arguments", "x"); !ok {
			t.Fatal("Lookup found nothing")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestMethodName(t *testing.T) {
	for line, want := range map[string]string{
		`{"id":1,"method":"tools/call"}`:      "tools/call",
		`{"id":1,"method":"tools\u002fcall"}`: "tools/call",
		`{"id":1,"result":{}}`:                "",
	} {
		if got := mustParse(t, line).MethodName(); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestLookup(t *testing.T) {
	m := mustParse(t, `{"id":1,"method":"m","params":{ "name" : "x" ,"_meta":{"progress\u0054oken":[7],"n":null},"two":1,"two":2,"a":[{"b":1}],"":0}}`)
	tests := []struct {
		path []string
		want string
		ok   bool
	}{
		{[]string{"name"}, `"x"`, true},
		{[]string{"_meta", "progressToken"}, `[7]`, true},
		{[]string{"_meta", "n"}, `null`, true},
		{[]string{""}, `0`, true},
		{nil, string(m.Params.Of(m.Raw)), true},
		{[]string{"absent"}, ``, false},
		{[]string{"Name"}, ``, false},
		{[]string{"name", "x"}, ``, false},
		{[]string{"_meta", "n", "x"}, ``, false},
		{[]string{"a", "b"}, ``, false},
		{[]string{"absent", "name"}, ``, false},
		// A receiver that takes the other one would be told something else.
		{[]string{"two"}, ``, false},
	}
	for _, test := range tests {
		span, ok := Lookup(m.Raw, m.Params, test.path...)
		if ok != test.ok || string(span.Of(m.Raw)) != test.want {
			t.Errorf("%q: %s, %v; want %s, %v", test.path, span.Of(m.Raw), ok, test.want, test.ok)
		}
	}
	if _, ok := Lookup(m.Raw, Span{}, "name"); ok {
		t.Error("found something in nothing")
	}
	if _, ok := Lookup(nil, Whole(nil), "name"); ok {
		t.Error("found something in no text")
	}
}

func TestElements(t *testing.T) {
	m := mustParse(t, `{"id":1,"result":{"tools":[ {"a":[1]} ,2, "],[" ,[]],"none":[ ],"object":{}}}`)
	for name, want := range map[string][]string{
		"tools":  {`{"a":[1]}`, `2`, `"],["`, `[]`},
		"none":   nil,
		"object": nil,
		"absent": nil,
	} {
		list, _ := Lookup(m.Raw, m.Result, name)
		var got []string
		for _, element := range Elements(m.Raw, list) {
			got = append(got, string(element.Of(m.Raw)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := Elements([]byte(`[1,2`), Span{0, 4}); got != nil {
		t.Errorf("elements of half an array: %v", got)
	}
}

func TestMembers(t *testing.T) {
	pairs := func(text string) (got []string) {
		for key, value := range Members([]byte(text), Whole([]byte(text))) {
			got = append(got, string(key.Of([]byte(text)))+"="+string(value.Of([]byte(text))))
		}
		return got
	}
	for text, want := range map[string][]string{
		`{ "a" : 1 , "\u0062":{"c":2},"a":[3] }`: {`"a"=1`, `"\u0062"={"c":2}`, `"a"=[3]`},
		`{ }`:                                    nil,
		`["a"]`:                                  nil,
		`7`:                                      nil,
		``:                                       nil,
	} {
		if got := pairs(text); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	text := []byte(`{"a":1,"b":2}`)
	seen := 0
	for range Members(text, Whole(text)) {
		seen++
		break
	}
	if seen != 1 {
		t.Errorf("a loop that ends after one member saw %d", seen)
	}
}

func TestSpanOfKeepsWritersOut(t *testing.T) {
	m := mustParse(t, `{"id":1,"method":"m"}`)
	_ = append(m.ID.Of(m.Raw), "999"...)
	if string(m.Raw) != `{"id":1,"method":"m"}` {
		t.Errorf("appending to a span wrote into the message: %s", m.Raw)
	}
	if (Span{}).Present() || (Span{}).Of(m.Raw) != nil {
		t.Error("the zero span is there")
	}
}
