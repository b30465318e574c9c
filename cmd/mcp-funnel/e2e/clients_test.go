//go:build e2e && linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/cmd/mcp-funnel/e2e/parts"
)

// oneServer is a config with the program's own server.
const oneServer = `{ "mcpServers": { "demo": { "command": "$PROGRAM", "args": ["demo-server"] } } }`

// demoTools are the tools of the program's own server, as clients see them.
var demoTools = []string{"demo__echo", "demo__add", "demo__calls", "demo__crash", "demo__hang", "demo__progress"}

// TestClients lists and calls tools through the bridge with every client that can be
// run by a script.
func TestClients(t *testing.T) {
	play(t, "inspector", oneServer, []parts.Part{parts.Node(), inspector}, inspectorCLI)
	play(t, "mcporter", oneServer, []parts.Part{parts.Node(), mcporter}, mcporterCLI)
	play(t, "sdk1", oneServer, []parts.Part{parts.Node(), sdk1}, func(u *user) string { return typescript(u, sdk1) })
	play(t, "sdk2", oneServer, []parts.Part{parts.Node(), sdk2}, func(u *user) string { return typescript(u, sdk2) })
	play(t, "go-sdk", oneServer, nil, goSDK)
	play(t, "mcp-go", oneServer, nil, mcpGo)
}

// lists checks that a client was told of all tools.
func (u *user) lists(names []string) {
	u.t.Helper()
	for _, want := range demoTools {
		if !slices.Contains(names, want) {
			u.t.Errorf("%s is not listed: %q", want, names)
		}
	}
}

func inspectorCLI(u *user) string {
	inspect := func(name string, args ...string) string {
		return u.must(name, u.command(inspector.Path(".bin", "mcp-inspector"),
			append([]string{"--cli", u.launcher, "bridge", "--method"}, args...)...))
	}
	var list struct{ Tools []struct{ Name string } }
	text := inspect("list", "tools/list")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		u.t.Fatalf("the list of tools: %v: %s", err, text)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	u.lists(names)
	sum := inspect("call", "tools/call", "--tool-name", "demo__add", "--tool-arg", "a=2", "--tool-arg", "b=40")
	if !strings.Contains(sum, `"42"`) {
		u.t.Errorf("2 + 40: %s", sum)
	}
	return fmt.Sprintf("Inspector %s listed %d tools and called one", strings.TrimPrefix(inspector.Name, "inspector-"), len(names))
}

func mcporterCLI(u *user) string {
	u.write("mcporter.json", fmt.Sprintf(`{"mcpServers":{"funnel":{"command":%q,"args":["bridge"]}}}`, u.launcher))
	port := func(name string, args ...string) string {
		cmd := u.command(mcporter.Path(".bin", "mcporter"), append(args, "--config", u.path("mcporter.json"))...)
		return u.must(name, cmd)
	}
	list := port("list", "list", "funnel")
	for _, want := range demoTools {
		if !strings.Contains(list, want) {
			u.t.Errorf("%s is not listed: %s", want, list)
		}
	}
	if text := port("call", "call", "funnel.demo__echo", "message=from mcporter"); strings.TrimSpace(text) != "from mcporter" {
		u.t.Errorf("the echo: %q", text)
	}
	return fmt.Sprintf("mcporter %s listed %d tools and called one", strings.TrimPrefix(mcporter.Name, "mcporter-"), len(demoTools))
}

func typescript(u *user, sdk parts.Part) string {
	text := u.must("client", u.command(parts.NodeProgram(), u.script("client.mjs", sdk), u.launcher, "bridge"))
	var said struct {
		Tools []string
		Text  string
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		u.t.Fatalf("the client's output: %v: %s", err, text)
	}
	u.lists(said.Tools)
	if said.Text != "from the SDK" {
		u.t.Errorf("the echo: %q", said.Text)
	}
	return fmt.Sprintf("the TypeScript SDK (%s) listed %d tools and called one", sdk.Packages[0], len(said.Tools))
}

func goSDK(u *user) string {
	session := u.connect()
	names := u.toolNames(session)
	u.lists(names)
	if text := u.call(session, "demo__echo", `{"message":"from go-sdk"}`); !strings.Contains(text, "from go-sdk") {
		u.t.Errorf("the echo: %s", text)
	}
	if err := session.Close(); err != nil {
		u.t.Error("closing the session:", err)
	}
	return fmt.Sprintf("go-sdk's client listed %d tools and called one", len(names))
}

func mcpGo(u *user) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	peer := transport.NewStdio(u.launcher, nil, "bridge")
	if err := peer.Start(ctx); err != nil {
		u.t.Fatal("starting the bridge:", err)
	}
	c := client.NewClient(peer)
	hello := mcpgo.InitializeRequest{Params: mcpgo.InitializeParams{
		ProtocolVersion: mcpgo.LATEST_PROTOCOL_VERSION, ClientInfo: mcpgo.Implementation{Name: "e2e", Version: "1"},
	}}
	if _, err := c.Initialize(ctx, hello); err != nil {
		u.t.Fatal("initializing:", err)
	}
	list, err := c.ListTools(ctx, mcpgo.ListToolsRequest{})
	if err != nil {
		u.t.Fatal("listing tools:", err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	u.lists(names)
	result, err := c.CallTool(ctx, mcpgo.CallToolRequest{Params: mcpgo.CallToolParams{
		Name: "demo__echo", Arguments: map[string]any{"message": "from mcp-go"},
	}})
	if err != nil {
		u.t.Fatal("calling a tool:", err)
	}
	if text, ok := mcpgo.AsTextContent(result.Content[0]); !ok || text.Text != "from mcp-go" {
		u.t.Errorf("the echo: %+v", result)
	}
	if err := c.Close(); err != nil {
		u.t.Error("closing the client:", err)
	}
	return fmt.Sprintf("mcp-go's client listed %d tools and called one", len(names))
}
