package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// supports reports whether the result of initialize has the capability.
func supports(init jsonrpc.Message, capability string) bool {
	span, ok := jsonrpc.Lookup(init.Raw, init.Result, "capabilities", capability)
	return ok && !bytes.Equal(span.Of(init.Raw), []byte("null"))
}

// handshake is what a server said when it was greeted.
type handshake struct {
	version string
	// has are the kinds of lists that it declared.
	has          kindSet
	instructions string
}

// ourCapabilities is what the funnel can do for servers, through its clients. What a
// single one cannot is refused when a server asks for it.
const ourCapabilities = `{"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}}}`

// greet performs the initialization phase of MCP 2025-11-25.
func (l *link) greet(ctx context.Context, self mcp.Implementation) (handshake, error) {
	params := []byte(`{"protocolVersion":` + string(jsonrpc.Quote(mcp.LATEST_LEGACY_PROTOCOL_VERSION)) +
		`,"capabilities":` + ourCapabilities + `,"clientInfo":{"name":` + string(jsonrpc.Quote(self.Name)) +
		`,"version":` + string(jsonrpc.Quote(self.Version)) + `}}`)
	init, err := l.call(ctx, mcp.MethodInitialize, params)
	if _, ended := errors.AsType[*ExitError](err); ended {
		return handshake{}, err // what was being asked does not matter then
	}
	if err != nil {
		return handshake{}, fmt.Errorf("initialize: %w", newerOnly(init, err))
	}
	span, _ := jsonrpc.Lookup(init.Raw, init.Result, "protocolVersion")
	version, ok := jsonrpc.Unquote(span.Of(init.Raw))
	if !ok {
		return handshake{}, errors.New("initialize: the answer has no protocolVersion")
	}
	if !speaks(version) {
		return handshake{}, fmt.Errorf("initialize: the server speaks protocol version %q only, the funnel %s", version, strings.Join(mcp.LegacyProtocolVersions(), ", "))
	}
	l.transport.Negotiated(version)
	if err := l.notify("notifications/initialized", nil); err != nil {
		return handshake{}, l.explain(ctx, fmt.Errorf("sending notifications/initialized: %w", err))
	}
	l.logging = supports(init, "logging")
	shake := handshake{version: version}
	for _, kind := range AllKinds() {
		if supports(init, kind.Capability()) {
			shake.has = shake.has.with(kind)
		}
	}
	shake.instructions, _ = jsonrpc.LookupString(init.Raw, init.Result, "instructions")
	return shake, nil
}

func speaks(version string) bool { return slices.Contains(mcp.LegacyProtocolVersions(), version) }
