package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"mcp-funnel/core/jsonrpc"
)

// oddities are members that a program which decodes messages and encodes them again
// does not give back as they were.
const oddities = `"max":9223372036854775807, "huge":1e400,"exp":1E+2,  "neg":-0.0 ,"es\u0063aped":"\u2028<&>\ud83d\ude00 \/ é",` +
	`"Twin":1,"twin":2,"empty":{},"none":null,"list":[ ],"deep":[[{"x":[null,{"y":1.10}]}]]`

// odd is a server whose every word is odd. This test binary plays it under that name.
func odd() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(line)
		if err != nil {
			continue
		}
		id, params := m.ID.Of(m.Raw), m.Params.Of(m.Raw)
		switch method := m.MethodName(); method {
		case "initialize":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{}},"serverInfo":{"name":"odd","version":"1"}}}`, id)
		case "tools/list":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{ "name":"t","inputSchema":{"type":"object","properties":{"n":{%s}}}, "x":{%s}}]}}`, id, oddities, oddities)
		case "prompts/list":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"prompts":[{"name":"p",  "x":{%s}}]}}`, id, oddities)
		case "resources/list":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"resources":[{"uri":"odd://r","name":"r","x":{%s}}]}}`, id, oddities)
		case "resources/templates/list":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"resourceTemplates":[{"uriTemplate":"odd://{v}","name":"t","x":{%s}}]}}`, id, oddities)
		case "tools/call":
			token, _ := jsonrpc.Lookup(m.Raw, m.Params, "_meta", "progressToken")
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,%s}}`, token.Of(m.Raw), oddities)
			say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{%s}}}`, oddities)
			say(`{ "id":  "q" ,"jsonrpc":"2.0","method":"sampling/createMessage","params":{"messages":[],%s}}`, oddities)
			answer, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"unknown",%s}],"answer":%s,"_meta":{%s}}}`, id, oddities, jsonrpc.Quote(strings.TrimSpace(string(answer))), oddities)
		case "acme/fails":
			say(`{"error":{"code":-32050 ,"message":"no","data":{%s}},"id":%s,"jsonrpc":"2.0"}`, oddities, id)
		default:
			if m.Kind == jsonrpc.Request { // and shows what came
				say(`{"jsonrpc":"2.0","id":%s,"result":{"echo":%s,%s}}`, id, jsonrpc.Quote(string(params)), oddities)
			} else if strings.HasPrefix(method, "notifications/acme") {
				say(`{"jsonrpc":"2.0","method":"notifications/echo","params":{"echo":%s,%s}}`, jsonrpc.Quote(string(m.Raw)), oddities)
			}
		}
	}
}
