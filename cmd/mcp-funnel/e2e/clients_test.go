//go:build e2e && linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-funnel/cmd/mcp-funnel/e2e/parts"
)

// oneServer is a config with the program's own server.
const oneServer = `{ "mcpServers": { "demo": { "command": "$PROGRAM", "args": ["demo-server"] } } }`

// demoTools are the tools of the program's own server, as clients see them.
var demoTools = []string{"demo__echo", "demo__add", "demo__calls", "demo__crash", "demo__hang", "demo__progress"}

// heard is what a client was told when it used everything that its library offers.
type heard struct {
	Tools []string
	// Text is the echo of a tool.
	Text string
	// Prompt and Resource are the texts of two of go-sdk's server.
	Prompt, Resource string
	// Elicited is what a tool of that server says that the user answered.
	Elicited string
}

// told is what a client has to be told in return for echo.
func told(echo string) heard {
	return heard{
		Tools: demoTools, Text: echo, Prompt: "This is a simple prompt for testing.",
		Resource: "This is the content of the static text resource.",
		Elicited: "Elicitation result: action=accept, content=map[username:e2e]",
	}
}

// hears checks what a client was told.
func (u *user) hears(got, want heard) {
	u.t.Helper()
	u.lists(got.Tools)
	want.Tools = got.Tools
	if diff := cmp.Diff(want, got); diff != "" {
		u.t.Errorf("the client was told (-want +got):\n%s", diff)
	}
}

// TestClients lists and calls tools through the bridge with every client that can be
// run by a script. Those that are libraries also get a prompt, read a resource, and
// answer a server's question.
func TestClients(t *testing.T) {
	twoServers := fmt.Sprintf(`{ "mcpServers": {
		"demo": { "command": "$PROGRAM", "args": ["demo-server"] },
		"peer": { "command": %q } } }`, everythingServer(t))
	play(t, "inspector", oneServer, []parts.Part{parts.Node(), inspector}, inspectorCLI)
	play(t, "mcporter", oneServer, []parts.Part{parts.Node(), mcporter}, mcporterCLI)
	play(t, "sdk1", twoServers, []parts.Part{parts.Node(), sdk1}, func(u *user) string { return typescript(u, sdk1) })
	play(t, "sdk2", twoServers, []parts.Part{parts.Node(), sdk2}, func(u *user) string { return typescript(u, sdk2) })
	play(t, "go-sdk", twoServers, nil, goSDK)
	play(t, "mcp-go", twoServers, nil, mcpGo)
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
	var said heard
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		u.t.Fatalf("the client's output: %v: %s", err, text)
	}
	u.hears(said, told("from the SDK"))
	return usedAll(fmt.Sprintf("the TypeScript SDK (%s)", sdk.Packages[0]), said)
}

// usedAll is what a client proved that did.
func usedAll(client string, said heard) string {
	return fmt.Sprintf("%s listed %d tools, called one, got a prompt, read a resource and answered a server's question", client, len(said.Tools))
}

func goSDK(u *user) string {
	session := u.connectWith(&mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"username": "e2e"}}, nil
		},
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text := func(result *mcp.CallToolResult, err error) string {
		if err != nil {
			u.t.Fatal("calling a tool:", err)
		}
		return result.Content[0].(*mcp.TextContent).Text
	}
	prompt, err := session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "peer__test_simple_prompt"})
	if err != nil {
		u.t.Fatal("getting a prompt:", err)
	}
	resource, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://static-text"})
	if err != nil {
		u.t.Fatal("reading a resource:", err)
	}
	said := heard{
		Tools:  u.toolNames(session),
		Text:   text(session.CallTool(ctx, &mcp.CallToolParams{Name: "demo__echo", Arguments: map[string]any{"message": "from go-sdk"}})),
		Prompt: prompt.Messages[0].Content.(*mcp.TextContent).Text, Resource: resource.Contents[0].Text,
		Elicited: text(session.CallTool(ctx, &mcp.CallToolParams{Name: "peer__test_elicitation", Arguments: map[string]any{"message": "who?"}})),
	}
	u.hears(said, told("from go-sdk"))
	if err := session.Close(); err != nil {
		u.t.Error("closing the session:", err)
	}
	return usedAll("go-sdk's client", said)
}

// mcpGoUser answers every form.
type mcpGoUser struct{}

func (mcpGoUser) Elicit(context.Context, mcpgo.ElicitationRequest) (*mcpgo.ElicitationResult, error) {
	return &mcpgo.ElicitationResult{ElicitationResponse: mcpgo.ElicitationResponse{
		Action: mcpgo.ElicitationResponseActionAccept, Content: map[string]any{"username": "e2e"},
	}}, nil
}

func mcpGo(u *user) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := client.NewClient(transport.NewStdio(u.launcher, nil, "bridge"), client.WithElicitationHandler(mcpGoUser{}))
	if err := c.Start(ctx); err != nil {
		u.t.Fatal("starting the bridge:", err)
	}
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
	var said heard
	for _, tool := range list.Tools {
		said.Tools = append(said.Tools, tool.Name)
	}
	call := func(name, message string) string {
		result, err := c.CallTool(ctx, mcpgo.CallToolRequest{Params: mcpgo.CallToolParams{
			Name: name, Arguments: map[string]any{"message": message},
		}})
		if err != nil {
			u.t.Fatal("calling a tool:", err)
		}
		return result.Content[0].(mcpgo.TextContent).Text
	}
	said.Text, said.Elicited = call("demo__echo", "from mcp-go"), call("peer__test_elicitation", "who?")
	prompt, err := c.GetPrompt(ctx, mcpgo.GetPromptRequest{Params: mcpgo.GetPromptParams{Name: "peer__test_simple_prompt"}})
	if err != nil {
		u.t.Fatal("getting a prompt:", err)
	}
	said.Prompt = prompt.Messages[0].Content.(mcpgo.TextContent).Text
	resource, err := c.ReadResource(ctx, mcpgo.ReadResourceRequest{Params: mcpgo.ReadResourceParams{URI: "test://static-text"}})
	if err != nil {
		u.t.Fatal("reading a resource:", err)
	}
	said.Resource = resource.Contents[0].(mcpgo.TextResourceContents).Text
	u.hears(said, told("from mcp-go"))
	if err := c.Close(); err != nil {
		u.t.Error("closing the client:", err)
	}
	return usedAll("mcp-go's client", said)
}
