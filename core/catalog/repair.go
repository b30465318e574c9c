package catalog

import (
	"bytes"

	"mcp-funnel/core/jsonrpc"
)

// combinator tells the keywords that model APIs refuse at the root of a schema.
// What they say is lost to the model, not to the call: arguments are not checked
// here, and the server checks them itself.
func combinator(key string) bool { return key == "anyOf" || key == "oneOf" || key == "allOf" }

// repair returns raw, a tool, or a copy in which is mended what makes strict clients
// drop it or the whole list: members that are null, and the roots of its schemas
// where they are no object schemas. Nothing below those roots is touched.
func repair(raw []byte) []byte {
	out := keepMembers(raw, func(key string, value []byte) bool {
		return !null(value) && (key != "outputSchema" || objectSchema(value))
	})
	out = mend(out, "annotations", withoutNulls)
	out = mend(out, "outputSchema", repairOutput)
	if _, ok := jsonrpc.Lookup(out, jsonrpc.Whole(out), "inputSchema"); !ok {
		return addMember(out, `"inputSchema":{"type":"object","properties":{}}`)
	}
	return mend(out, "inputSchema", repairInput)
}

// repairInput mends the root of an input schema.
func repairInput(schema []byte) []byte {
	if schema[0] != '{' {
		return []byte(`{"type":"object","properties":{}}`)
	}
	out := keepMembers(schema, func(key string, value []byte) bool {
		switch key {
		case "type":
			return string(value) == `"object"`
		case "properties": // PHP writes an empty one as []
			return value[0] == '{'
		}
		return !combinator(key) && !null(value)
	})
	return withMember(withMember(out, "properties", "{}"), "type", `"object"`)
}

// repairOutput mends the root of an output schema that [objectSchema] accepts. No
// model sees it, so that combinators stay.
func repairOutput(schema []byte) []byte {
	return withMember(withoutNulls(schema), "type", `"object"`)
}

// objectSchema reports whether schema is or can be made one of objects. Another
// output schema is left out: clients would check results against it which cannot
// be right.
func objectSchema(schema []byte) bool {
	if schema[0] != '{' {
		return false
	}
	span, ok := jsonrpc.Lookup(schema, jsonrpc.Whole(schema), "type")
	return !ok || null(span.Of(schema)) || string(span.Of(schema)) == `"object"`
}

func null(value []byte) bool { return string(value) == "null" }

// withoutNulls drops the members of the object that are null.
func withoutNulls(object []byte) []byte {
	return keepMembers(object, func(_ string, value []byte) bool { return !null(value) })
}

// mend puts what change makes of it in place of the member of that name, if there
// is one.
func mend(object []byte, name string, change func([]byte) []byte) []byte {
	span, ok := jsonrpc.Lookup(object, jsonrpc.Whole(object), name)
	if !ok {
		return object
	}
	mended := change(span.Of(object))
	if bytes.Equal(mended, span.Of(object)) {
		return object
	}
	return jsonrpc.Splice(object, jsonrpc.Edit{Span: span, With: mended})
}

// keepMembers returns the object itself when every member is kept, else a new one
// with the kept members as they were.
func keepMembers(object []byte, keep func(key string, value []byte) bool) []byte {
	dropped := false
	var kept []byte
	for key, value := range jsonrpc.Members(object, jsonrpc.Whole(object)) {
		name, _ := jsonrpc.Unquote(key.Of(object))
		if !keep(name, value.Of(object)) {
			dropped = true
			continue
		}
		if kept != nil {
			kept = append(kept, ',')
		}
		kept = append(append(kept, key.Of(object)...), ':')
		kept = append(kept, value.Of(object)...)
	}
	if !dropped {
		return object
	}
	return append(append([]byte{'{'}, kept...), '}')
}

// withMember adds a member unless there is one of that name.
func withMember(object []byte, name, value string) []byte {
	if _, ok := jsonrpc.Lookup(object, jsonrpc.Whole(object), name); ok {
		return object
	}
	return addMember(object, `"`+name+`":`+value)
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
