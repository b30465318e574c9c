package catalog

import (
	"bytes"

	"mcp-funnel/core/jsonrpc"
)

// combinator tells the keywords that model APIs refuse at the root of a schema.
// What they say is lost to the model, not to the call: arguments are not checked
// here, and the server checks them itself.
func combinator(key string) bool { return key == "anyOf" || key == "oneOf" || key == "allOf" }

// repair returns raw, or a copy in which is mended what makes strict clients drop
// a tool, or the whole list: members that are null, and the root of inputSchema
// where it is no object schema. Nothing below that root is touched.
func repair(raw []byte) []byte {
	out := withoutNulls(raw, jsonrpc.Whole(raw))
	span, ok := jsonrpc.Lookup(out, jsonrpc.Whole(out), "inputSchema")
	if !ok {
		return addMember(out, `"inputSchema":{"type":"object","properties":{}}`)
	}
	schema := repairSchema(span.Of(out))
	if bytes.Equal(schema, span.Of(out)) {
		return out
	}
	return jsonrpc.Splice(out, jsonrpc.Edit{Span: span, With: schema})
}

// repairSchema mends the root of an input schema.
func repairSchema(schema []byte) []byte {
	if len(schema) == 0 || schema[0] != '{' {
		return []byte(`{"type":"object","properties":{}}`)
	}
	out := keepMembers(schema, func(key string, value []byte) bool {
		if key == "type" && string(value) != `"object"` {
			return false
		}
		return !combinator(key) && string(value) != "null"
	})
	if _, ok := jsonrpc.Lookup(out, jsonrpc.Whole(out), "properties"); !ok {
		out = addMember(out, `"properties":{}`)
	}
	if _, ok := jsonrpc.Lookup(out, jsonrpc.Whole(out), "type"); !ok {
		out = addMember(out, `"type":"object"`)
	}
	return out
}

// withoutNulls drops the members of the object that are null.
func withoutNulls(text []byte, object jsonrpc.Span) []byte {
	return keepMembers(object.Of(text), func(_ string, value []byte) bool { return string(value) != "null" })
}

// keepMembers returns the object itself when every member is kept, else a new one
// with the kept members as they were.
func keepMembers(object []byte, keep func(key string, value []byte) bool) []byte {
	dropped := false
	var kept []byte
	jsonrpc.Members(object, jsonrpc.Whole(object), func(key string, value jsonrpc.Span) {
		if !keep(key, value.Of(object)) {
			dropped = true
			return
		}
		if kept != nil {
			kept = append(kept, ',')
		}
		kept = append(append(kept, jsonrpc.Quote(key)...), ':')
		kept = append(kept, value.Of(object)...)
	})
	if !dropped {
		return object
	}
	return append(append([]byte{'{'}, kept...), '}')
}

// addMember puts a member at the front of an object.
func addMember(object []byte, member string) []byte {
	rest := bytes.TrimLeft(object[1:], " \t\r\n")
	out := append(append([]byte{'{'}, member...), ',')
	if len(rest) > 0 && rest[0] == '}' {
		out = out[:len(out)-1]
	}
	return append(out, rest...)
}
