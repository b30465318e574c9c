package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"mcp-funnel/core/jsonrpc"
)

// parseArguments makes the arguments of a call, one JSON object, of what stands
// behind the tool on the command line: nothing, the object, "-" for stdin, or
// KEY=VALUE pairs, whose order is kept.
func parseArguments(args []string, stdin io.Reader) (json.RawMessage, error) {
	switch {
	case len(args) == 1 && args[0] == "-":
		data, err := io.ReadAll(stdin)
		if err != nil {
			return nil, &exitError{code: exitFailed, err: fmt.Errorf("reading the arguments from stdin: %w", err)}
		}
		return parseObject(data)
	case len(args) == 1 && strings.HasPrefix(strings.TrimSpace(args[0]), "{"):
		return parseObject([]byte(args[0]))
	}
	return parsePairs(args)
}

// parseObject checks that data is one JSON object and keeps it byte for byte.
func parseObject(data []byte) (json.RawMessage, error) {
	data = bytes.TrimSpace(data)
	if !json.Valid(data) {
		var anything any
		return nil, fmt.Errorf("the arguments are not valid JSON: %w", json.Unmarshal(data, &anything))
	}
	if data[0] != '{' {
		return nil, errors.New("the arguments must be one JSON object: {...}")
	}
	return data, nil
}

func parsePairs(pairs []string) (json.RawMessage, error) {
	seen := make(map[string]bool, len(pairs))
	object := []byte{'{'}
	for i, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		switch {
		case !found || key == "":
			return nil, fmt.Errorf("%q is neither KEY=VALUE nor a JSON object", pair)
		case seen[key]:
			return nil, fmt.Errorf("%q is given twice", key)
		}
		seen[key] = true
		if i > 0 {
			object = append(object, ',')
		}
		object = append(append(append(object, jsonrpc.Quote(key)...), ':'), parseValue(value)...)
	}
	return append(object, '}'), nil
}

// parseValue takes text that is JSON as it is, so that numbers of any size stay
// what they are, and makes a string of everything else.
func parseValue(text string) []byte {
	if trimmed := strings.TrimSpace(text); json.Valid([]byte(trimmed)) {
		return []byte(trimmed)
	}
	return jsonrpc.Quote(text)
}
