package jsonrpc

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSplice(t *testing.T) {
	const text = `{"id":1,"method":"m","params":{"name":"x"}}`
	id, name := Span{6, 7}, Span{38, 41}
	tests := map[string]struct {
		edits []Edit
		want  string
	}{
		"none":    {nil, text},
		"longer":  {[]Edit{{id, []byte(`"a long id"`)}}, `{"id":"a long id","method":"m","params":{"name":"x"}}`},
		"shorter": {[]Edit{{name, []byte(`0`)}}, `{"id":1,"method":"m","params":{"name":0}}`},
		"nothing": {[]Edit{{name, nil}}, `{"id":1,"method":"m","params":{"name":}}`},
		"two":     {[]Edit{{id, []byte(`22`)}, {name, []byte(`"yy"`)}}, `{"id":22,"method":"m","params":{"name":"yy"}}`},
		"side by side": {[]Edit{{Span{0, 1}, []byte("<")}, {Span{1, 5}, []byte("=")}},
			`<=:1,"method":"m","params":{"name":"x"}}`},
		"insertion": {[]Edit{{Span{1, 1}, []byte(`"a":0,`)}}, `{"a":0,"id":1,"method":"m","params":{"name":"x"}}`},
		"ends":      {[]Edit{{Span{0, 1}, []byte("[")}, {Span{len(text) - 1, len(text)}, []byte("]")}}, `["id":1,"method":"m","params":{"name":"x"}]`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			raw := []byte(text)
			got := Splice(raw, test.edits...)
			if string(got) != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if string(raw) != text {
				t.Errorf("the original became %s", raw)
			}
			if len(raw) > 0 && &got[0] == &raw[0] {
				t.Error("the result shares memory with the original")
			}
			if cap(got) == len(got) {
				t.Error("no room for a newline")
			}
		})
	}
}

func TestBuilders(t *testing.T) {
	tests := map[string]struct {
		got  []byte
		want string
	}{
		"request":             {NewRequest(7, "tools/list", nil), `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`},
		"request with params": {NewRequest(-1, "m", []byte(`{"a":1}`)), `{"jsonrpc":"2.0","id":-1,"method":"m","params":{"a":1}}`},
		"notification":        {NewNotification("n", nil), `{"jsonrpc":"2.0","method":"n"}`},
		"notification with":   {NewNotification(`a"<&>`, []byte(`[]`)), `{"jsonrpc":"2.0","method":"a\"<&>","params":[]}`},
		"result":              {NewResult([]byte(`"x"`), []byte(`{}`)), `{"jsonrpc":"2.0","id":"x","result":{}}`},
		"error":               {NewError([]byte(`3`), &Error{Code: CodeInvalidParams, Message: `no "x"`}), `{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"no \"x\""}}`},
		"error without an id": {NewError(nil, &Error{Code: CodeParseError, Message: "m"}), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`},
		"error with data":     {NewError([]byte(`3`), &Error{Code: 5, Message: "m", Data: []byte(`{"big":1e400}`)}), `{"jsonrpc":"2.0","id":3,"error":{"code":5,"message":"m","data":{"big":1e400}}}`},
	}
	for name, test := range tests {
		if string(test.got) != test.want {
			t.Errorf("%s: %s, want %s", name, test.got, test.want)
		}
		mustParse(t, string(test.got))
	}
}

func TestErrorSaysCodeAndMessage(t *testing.T) {
	if got := (&Error{Code: -32601, Message: "no such method"}).Error(); got != "no such method (code -32601)" {
		t.Errorf("got %q", got)
	}
}

func TestQuoteAndUnquote(t *testing.T) {
	for _, text := range []string{"", "plain", `a"b\c`, "<&>", "tab\tline\n", "\x00\x1f", "ünïcødé 🚀", "\u2028\u2029", strings.Repeat("x", 10_000)} {
		quoted := Quote(text)
		if !json.Valid(quoted) {
			t.Errorf("%q: %s is no JSON", text, quoted)
		}
		if got, ok := Unquote(quoted); !ok || got != text {
			t.Errorf("%q came back as %q, %v", text, got, ok)
		}
	}
	if got := string(Quote("<&>")); got != `"<&>"` {
		t.Errorf("got %s", got)
	}
	for _, value := range []string{``, `"`, `x`, `7`, `null`, `"a`, `a"`, `"\"`, `"a"b"`, `"\x"`, `{"a":"b"}`} {
		if got, ok := Unquote([]byte(value)); ok {
			t.Errorf("%s is no string, yet became %q", value, got)
		}
	}
}
