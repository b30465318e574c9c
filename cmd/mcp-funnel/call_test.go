package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParseArguments(t *testing.T) {
	for _, test := range []struct {
		name  string
		args  []string
		stdin string
		want  string
	}{
		{name: "nothing", want: `{}`},
		{name: "text", args: []string{"query=is:open label:bug"}, want: `{"query":"is:open label:bug"}`},
		{name: "empty text", args: []string{"query="}, want: `{"query":""}`},
		{name: "kinds of JSON", args: []string{"n=1", "b=true", "z=null", "l=[1, 2]", `o={"x":"y"}`, `s="42"`}, want: `{"n":1,"b":true,"z":null,"l":[1, 2],"o":{"x":"y"},"s":"42"}`},
		{name: "a number too big for a float", args: []string{"id=12345678901234567890"}, want: `{"id":12345678901234567890}`},
		{name: "almost JSON is text", args: []string{"a=007", "b=True", "c=[1", `d="`}, want: `{"a":"007","b":"True","c":"[1","d":"\""}`},
		{name: "more equal signs", args: []string{"url=https://x/?a=b"}, want: `{"url":"https://x/?a=b"}`},
		{name: "an odd key", args: []string{`a"b=1`}, want: `{"a\"b":1}`},
		{name: "an object stays as it is", args: []string{` {"b": 1, "a": <3} `}, want: ""},
		{name: "an object", args: []string{` {"b": 1, "a": 2.50} `}, want: `{"b": 1, "a": 2.50}`},
		{name: "stdin", args: []string{"-"}, stdin: "{\"a\":\n1}\n", want: "{\"a\":\n1}"},
		{name: "a list on stdin", args: []string{"-"}, stdin: "[]"},
		{name: "nothing on stdin", args: []string{"-"}},
		{name: "no pair", args: []string{"query"}},
		{name: "no key", args: []string{"=1"}},
		{name: "twice", args: []string{"a=1", "a=2"}},
		{name: "an object and a pair", args: []string{"{}", "a=2"}},
		{name: "two objects", args: []string{"{}{}"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseArguments(test.args, strings.NewReader(test.stdin))
			if (err == nil) != (test.want != "") || string(got) != test.want {
				t.Errorf("got %s, %v; want %s", got, err, test.want)
			}
		})
	}
}

// FuzzParseArguments holds that whatever is accepted is one JSON object with the
// keys that were given.
func FuzzParseArguments(f *testing.F) {
	f.Add("key", "value")
	f.Add("key", `{"a":[1,2]}`)
	f.Add(`"`, "\x00\xff")
	f.Fuzz(func(t *testing.T, key, value string) {
		raw, err := parseArguments([]string{key + "=" + value, "fixed=1"}, strings.NewReader(value))
		if err != nil {
			return
		}
		var object map[string]json.RawMessage // numbers may be larger than Go's
		if err := json.Unmarshal(raw, &object); err != nil {
			t.Fatalf("%q = %q became %s: %v", key, value, raw, err)
		}
		if string(object["fixed"]) != "1" {
			t.Errorf("%q = %q became %s", key, value, raw)
		}
	})
}

func TestPrintResult(t *testing.T) {
	for _, test := range []struct {
		name, result  string
		asJSON        bool
		stdout, wrong string
	}{
		{name: "text", result: `{"content":[{"type":"text","text":"one\n"},{"type":"text","text":"two"}]}`, stdout: "one\ntwo\n"},
		{name: "an empty text", result: `{"content":[{"type":"text","text":""}]}`, stdout: "\n"},
		{name: "more than text", result: `{"content":[{"type":"text","text":"one"},{"type":"image","data":"AA=="}]}`,
			stdout: "{\n  \"content\": [\n    {\n      \"type\": \"text\",\n      \"text\": \"one\"\n    },\n    {\n      \"type\": \"image\",\n      \"data\": \"AA==\"\n    }\n  ]\n}\n"},
		{name: "no content", result: `{"content":[]}`, stdout: "{\n  \"content\": []\n}\n"},
		{name: "another shape", result: `{"content":7}`, stdout: "{\n  \"content\": 7\n}\n"},
		{name: "raw", asJSON: true, result: `{"content":[], "n":1.000}`, stdout: "{\"content\":[], \"n\":1.000}\n"},
		{name: "an error", result: `{"isError":true,"content":[{"type":"text","text":"no such issue"}]}`, wrong: "tool: no such issue"},
		{name: "a raw error", asJSON: true, result: `{"isError":true,"content":[{"type":"text","text":"no such issue"}]}`,
			stdout: `{"isError":true,"content":[{"type":"text","text":"no such issue"}]}` + "\n", wrong: "tool: no such issue"},
		{name: "an error without text", result: `{"isError":true}`, wrong: "tool: {\n  \"isError\": true\n}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout bytes.Buffer
			err := printResult(&environment{stdout: &stdout}, "tool", json.RawMessage(test.result), test.asJSON)
			if stdout.String() != test.stdout {
				t.Errorf("stdout is %q, want %q", stdout.String(), test.stdout)
			}
			if message := text(err); message != test.wrong {
				t.Errorf("the error is %q, want %q", message, test.wrong)
			}
		})
	}
}

// text is what err says, "" for none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		name   string
		err    error
		code   int
		stderr string
	}{
		{"none", nil, 0, ""},
		{"plain", errors.New("no"), exitFailed, "mcp-funnel: no\n"},
		{"with a code", &exitError{code: 4, err: errors.New("no")}, 4, "mcp-funnel: no\n"},
		{"wrapped", errors.Join(&exitError{code: 3, err: errors.New("no")}), 3, "mcp-funnel: no\n"},
		{"said already", &exitError{code: 2}, 2, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := report(t.Context(), &stderr, test.err); code != test.code || stderr.String() != test.stderr {
				t.Errorf("%d and %q, want %d and %q", code, stderr.String(), test.code, test.stderr)
			}
		})
	}
}
