//go:build e2e && linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-funnel/cmd/mcp-funnel/e2e/parts"
	"mcp-funnel/core"
	"mcp-funnel/core/status"
)

const realServers = `{
  "mcpServers": {
    "files":      { "command": "$NODE", "args": ["$CACHE/SERVERS/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js", "$DIR/home"] },
    "memory":     { "command": "$NODE", "args": ["$CACHE/SERVERS/node_modules/@modelcontextprotocol/server-memory/dist/index.js"],
                    "env": { "MEMORY_FILE_PATH": "$DIR/memory.json" } },
    "everything": { "command": "$NODE", "args": ["$CACHE/SERVERS/node_modules/@modelcontextprotocol/server-everything/dist/index.js"] },
    "npx":        { "command": "npx", "args": ["-y", "EVERYTHING"],
                    "env": { "npm_config_cache": "$CACHE/NPX", "npm_config_offline": "true", "npm_config_update_notifier": "false" } }
  }
}`

// TestServers puts four real servers behind one funnel. npx starts a shell and Node
// below itself and leaves them behind when it alone is ended or killed.
func TestServers(t *testing.T) {
	config := strings.NewReplacer("SERVERS", servers.Name, "EVERYTHING", parts.Everything, "NPX", parts.NPXServer().Name).Replace(realServers)
	play(t, "all", config, []parts.Part{parts.Node(), servers, parts.NPXServer()}, func(u *user) string {
		report := u.serve()
		u.write("home/letter.txt", "from the file")
		session := u.connect()
		names := u.toolNames(session)
		for _, prefix := range []string{"files__", "memory__", "everything__", "npx__"} {
			if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, prefix) }) {
				t.Errorf("no tool of %s in %q", prefix, names)
			}
		}
		for _, call := range []struct{ tool, arguments, want string }{
			{"files__read_text_file", fmt.Sprintf(`{"path":%q}`, u.path("home/letter.txt")), "from the file"},
			{"memory__create_entities", `{"entities":[{"name":"funnel","entityType":"thing","observations":["narrow"]}]}`, "narrow"},
			{"memory__read_graph", `{}`, "narrow"},
			{"everything__get-sum", `{"a":2,"b":40}`, "42"},
			{"npx__echo", `{"message":"through npx"}`, "through npx"},
		} {
			if got := u.call(session, call.tool, call.arguments); !strings.Contains(got, call.want) {
				t.Errorf("%s %s: %q, want %q in it", call.tool, call.arguments, got, call.want)
			}
		}
		u.makeStay(session)
		tree := u.killLeader(report)
		u.makeStay(session)
		if err := session.Close(); err != nil {
			t.Error("closing the session:", err)
		}
		before := len(u.processes())
		u.quit()
		return fmt.Sprintf("%d tools of 4 real servers listed, each called; npx killed: its %d processes were replaced; quit left 0 of %d processes",
			len(names), tree, before)
	})
}

// makeStay gives the server behind npx something to do for ever, so that it does not
// end when its standard input does.
func (u *user) makeStay(session *mcp.ClientSession) {
	u.t.Helper()
	if got := u.call(session, "npx__toggle-simulated-logging", `{}`); !strings.Contains(got, "Started") {
		u.t.Errorf("the server does not stay: %s", got)
	}
}

// killLeader kills npx alone. The others of its tree must be gone when its server
// is connected again. It returns how many they all were.
func (u *user) killLeader(report core.Report) int {
	u.t.Helper()
	i := slices.IndexFunc(report.Servers, func(s status.Server) bool { return s.Name == "npx" })
	old := report.Servers[i].PID
	tree := u.group(old)
	if len(tree) < 2 {
		u.t.Fatalf("npx has started nothing: %v", tree)
	}
	process{pid: old}.kill()
	u.server("npx", old)
	living := u.processes()
	for _, p := range tree {
		if slices.ContainsFunc(living, func(other process) bool { return other.pid == p.pid }) {
			u.t.Errorf("of the killed server, beside the new one: %s", p)
		}
	}
	return len(tree)
}

// connect attaches a bridge, by go-sdk's client.
func (u *user) connect() *mcp.ClientSession {
	u.t.Helper()
	return u.connectWith(nil)
}

// connectWith is connect for a client that can do more.
func (u *user) connectWith(options *mcp.ClientOptions) *mcp.ClientSession {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, options)
	session, err := client.Connect(ctx, u.transport("bridge", u.command(u.launcher, "bridge")), nil)
	if err != nil {
		u.t.Fatal("attaching a bridge:", err)
	}
	return session
}

// transport is the way to a command that is a server.
func (u *user) transport(name string, cmd *exec.Cmd) mcp.Transport {
	cmd.Stderr = u.log(name + ".err")
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: 5 * time.Second}
}

func (u *user) toolNames(session *mcp.ClientSession) []string {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var names []string
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			u.t.Fatal("listing tools:", err)
		}
		names = append(names, tool.Name)
	}
	return names
}

// call calls a tool and returns the result as JSON.
func (u *user) call(session *mcp.ClientSession, tool, arguments string) string {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		u.t.Fatalf("calling %s: %v", tool, err)
	}
	text, err := json.Marshal(result)
	if err != nil {
		u.t.Fatal(err)
	}
	if result.IsError {
		u.t.Fatalf("calling %s: %s", tool, text)
	}
	return string(text)
}
