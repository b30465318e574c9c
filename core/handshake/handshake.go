package handshake

import (
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// capabilities is what the funnel says it can do: always the same, since what the
// servers behind it can do changes while the session lasts.
const capabilities = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},` +
	`"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{}}`

// Version picks the protocol version for a client's initialize (MCP lifecycle,
// "Version negotiation"): its own where we know it, else our newest with a
// handshake.
func Version(initialize jsonrpc.Message) string {
	wanted, _ := jsonrpc.LookupString(initialize.Raw, initialize.Params, "protocolVersion")
	if slices.Contains(mcp.LegacyProtocolVersions(), wanted) {
		return wanted
	}
	return mcp.LATEST_LEGACY_PROTOCOL_VERSION
}

// Result is the result for a client's initialize. version is that of this program,
// instructions those for the model, "" for none.
func Result(initialize jsonrpc.Message, version, instructions string) []byte {
	result := []byte(`{"protocolVersion":` + string(jsonrpc.Quote(Version(initialize))) + `,"capabilities":` + capabilities +
		`,"serverInfo":{"name":"mcp-funnel","title":"MCP Funnel","version":` + string(jsonrpc.Quote(version)) + `}`)
	if instructions != "" {
		result = append(append(result, `,"instructions":`...), jsonrpc.Quote(instructions)...)
	}
	return append(result, '}')
}
