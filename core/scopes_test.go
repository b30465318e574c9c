package core

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-funnel/core/hub"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

// projectServer is a server whose tool is named like the folder in its address, and says
// that it was called.
func projectServer(t *testing.T) string {
	t.Helper()
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Parse(body)
		dir := r.URL.Query().Get("dir")
		result := "{}"
		switch {
		case r.Method != http.MethodPost || err != nil:
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		case m.Kind != jsonrpc.Request:
			w.WriteHeader(http.StatusAccepted)
			return
		case m.MethodName() == "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"p","version":"1"}}`
		case m.MethodName() == "tools/list":
			result = fmt.Sprintf(`{"tools":[{"name":"common","inputSchema":{"type":"object"}},{"name":%q,"inputSchema":{"type":"object"}}]}`, filepath.Base(dir))
		case m.MethodName() == "tools/call":
			result = `{"content":[{"type":"text","text":` + string(jsonrpc.Quote(dir)) + `}]}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(jsonrpc.NewResult(m.ID.Of(m.Raw), []byte(result)))
	}))
	t.Cleanup(func() { peer.CloseClientConnections(); peer.Close() })
	return peer.URL
}

// toolsOf lists the tools of a client.
func (b *bridged) toolsOf(id int) []string {
	b.t.Helper()
	b.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, id))
	m := <-b.replies
	var listed struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(m.Result.Of(m.Raw), &listed); err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for _, tool := range listed.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func TestServerForEachProject(t *testing.T) {
	w := newFunnel(t, `{"mcpServers": {"p": {"url": "`+projectServer(t)+`?dir=${PROJECT_DIR}", "prefix": ""}}}`)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dirs := []string{filepath.Join(root, "my one"), filepath.Join(root, "two")}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.run()
	w.until(func(s status.Snapshot) bool { return s.Servers[0].State == status.Idle })
	one := w.attach("one", hub.Peer{CWD: dirs[0]})
	w.until(func(s status.Snapshot) bool { return s.ExposedTools == 2 }) // from the first project that came
	two := w.attach("two", hub.Peer{ProjectDir: dirs[1], CWD: "/"})
	for i, c := range []*bridged{one, two} {
		if m := c.call(1, "common", "{}"); !strings.Contains(string(m.Raw), string(jsonrpc.Quote(dirs[i]))) {
			t.Errorf("in %s: %s", dirs[i], m.Raw)
		}
	}
	w.until(func(s status.Snapshot) bool { return len(s.Servers[0].Instances) == 2 })
	if got := one.toolsOf(2); len(got) != 2 || got[0] != "common" || !strings.HasPrefix(got[1], "my_one") {
		t.Errorf("the first sees %q", got)
	}
	waitFor(t, "the second sees its own tools", func() bool { return strings.Join(two.toolsOf(3), " ") == "common two" })
	if m := two.call(4, "two", "{}"); !m.Result.Present() {
		t.Errorf("its own tool: %s", m.Raw)
	}

	// From a command line the folder is that of its user.
	result, refusal := w.ask("call", `{"tool":"common","folder":`+string(jsonrpc.Quote(dirs[1]))+`}`)
	if refusal != nil || !strings.Contains(string(result), string(jsonrpc.Quote(dirs[1]))) {
		t.Errorf("call: %s, %v", result, refusal)
	}
	if result, refusal := w.ask("call", `{"tool":"common","folder":"/"}`); refusal != nil || !strings.Contains(string(result), "no") || !strings.Contains(string(result), "CLAUDE_PROJECT_DIR") {
		t.Errorf("call without a folder: %s, %v", result, refusal)
	}
	if s, _ := w.funnel.Board().Snapshot().Server("p"); s.State != status.Connected || len(s.Instances) != 2 || s.Instances[0].Folder != dirs[0] {
		t.Errorf("server %+v", s)
	}
}
