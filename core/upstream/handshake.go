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
	// tools: it declared that it has tools.
	tools bool
}

// greet performs the initialization phase of MCP 2025-11-25.
func (l *link) greet(ctx context.Context, self mcp.Implementation) (handshake, error) {
	params := []byte(`{"protocolVersion":` + string(jsonrpc.Quote(mcp.LATEST_LEGACY_PROTOCOL_VERSION)) +
		`,"capabilities":{},"clientInfo":{"name":` + string(jsonrpc.Quote(self.Name)) +
		`,"version":` + string(jsonrpc.Quote(self.Version)) + `}}`)
	init, err := l.call(ctx, mcp.MethodInitialize, params)
	if _, ended := errors.AsType[*ExitError](err); ended {
		return handshake{}, err // what was being asked does not matter then
	}
	if err != nil {
		return handshake{}, fmt.Errorf("initialize: %w", err)
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
	return handshake{version: version, tools: supports(init, "tools")}, nil
}

func speaks(version string) bool { return slices.Contains(mcp.LegacyProtocolVersions(), version) }

// maxPages bounds how long a server may go on about its tools.
const maxPages = 1000

// listTools reads all pages of tools/list and returns each tool as the server
// wrote it.
func (l *link) listTools(ctx context.Context) ([][]byte, error) {
	var tools [][]byte
	var params []byte
	for range maxPages {
		page, err := l.call(ctx, mcp.MethodToolsList, params)
		var refusal *jsonrpc.Error
		if errors.As(err, &refusal) && refusal.Code == jsonrpc.CodeMethodNotFound {
			return nil, nil // it declared tools and has none
		}
		if err != nil {
			return nil, fmt.Errorf("tools/list: %w", err)
		}
		list, _ := jsonrpc.Lookup(page.Raw, page.Result, "tools")
		for _, element := range jsonrpc.Elements(page.Raw, list) {
			tools = append(tools, element.Of(page.Raw))
		}
		cursor, ok := jsonrpc.Lookup(page.Raw, page.Result, "nextCursor")
		next := cursor.Of(page.Raw)
		if !ok || next[0] != '"' || string(next) == `""` {
			return tools, nil
		}
		params = append(append([]byte(`{"cursor":`), next...), '}')
	}
	return nil, fmt.Errorf("tools/list: the server sends more than %d pages", maxPages)
}
