package core

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.uber.org/goleak"

	"mcp-funnel/core/config"
	"mcp-funnel/core/hub"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}

// world is a funnel with private folders, before servers of the test's own making.
type world struct {
	t      *testing.T
	funnel *Funnel
	config string
	dir    string
	quit   chan string
}

// newFunnel builds a funnel over the given config text; Run is the test's.
func newFunnel(t *testing.T, text string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, dir: dir, config: filepath.Join(dir, "config.json"), quit: make(chan string, 1)}
	w.write(text)
	w.funnel = New(Options{
		ConfigPath: w.config, RuntimeDir: dir, StateDir: filepath.Join(dir, "state"), Home: dir,
		Environ: []string{"PATH=" + os.Getenv("PATH"), "SHELL=/bin/sh", "HOME=" + dir}, Version: "1",
		Mode: func() string { return "headless" }, Quit: func(reason string) { w.quit <- reason },
		Log: slog.New(slog.DiscardHandler),
	})
	return w
}

func (w *world) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.config+".new", []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(w.config+".new", w.config); err != nil {
		w.t.Fatal(err)
	}
}

// run starts the funnel and ends it with the test.
func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.funnel.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
	})
}

// until waits for the board to show something.
func (w *world) until(holds func(status.Snapshot) bool) status.Snapshot {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	snap := w.funnel.Board().Snapshot()
	for !holds(snap) {
		next, err := w.funnel.Board().Wait(ctx, snap.Generation)
		if err != nil {
			w.t.Fatalf("never; the board shows %+v", snap)
		}
		snap = next
	}
	return snap
}

// ask asks the control side.
func (w *world) ask(method, params string) (result json.RawMessage, refusal *jsonrpc.Error) {
	w.t.Helper()
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.funnel.ServeControl(ctx, theirs, bufio.NewReader(theirs))
	}()
	defer func() { cancel(); _ = ours.Close(); <-done }()
	if _, err := ours.Write(append(jsonrpc.NewRequest(1, method, []byte(params)), '\n')); err != nil {
		w.t.Fatal(err)
	}
	line, err := bufio.NewReader(ours).ReadBytes('\n')
	if err != nil {
		w.t.Fatal(err)
	}
	var reply struct {
		Result json.RawMessage
		Error  *jsonrpc.Error
	}
	if err := json.Unmarshal(line, &reply); err != nil {
		w.t.Fatal(err)
	}
	return reply.Result, reply.Error
}

// httpServer is an MCP server of mcp-go with one tool.
func httpServer(t *testing.T, tool string) string {
	t.Helper()
	s := server.NewMCPServer("peer", "1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool(tool, mcp.WithDescription("says hello")), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("hello from " + tool), nil
	})
	peer := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(func() { peer.CloseClientConnections(); peer.Close() })
	return peer.URL
}

func allConnected(s status.Snapshot) bool {
	for _, server := range s.Servers {
		if server.State != status.Connected {
			return false
		}
	}
	return len(s.Servers) > 0
}

func TestBoardShowsServersInTheOrderOfTheConfigFromTheBeginning(t *testing.T) {
	w := newFunnel(t, `{"mcpServers": {"z": {"command": "x"}, "a": {"command": "x", "enabled": false}, "m": {}}}`)
	var got []string
	for _, s := range w.funnel.Board().Snapshot().Servers {
		got = append(got, s.Name+" "+string(s.State))
	}
	if diff := cmp.Diff([]string{"z connecting", "a disabled", "m invalid"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestToolsOfAnHTTPServerAreCalled(t *testing.T) {
	w := newFunnel(t, `{"mcpServers": {"web": {"type": "http", "url": "`+httpServer(t, "greet")+`"}}}`)
	w.run()
	w.until(allConnected)
	result, refusal := w.ask("call", `{"tool":"web__greet"}`)
	if refusal != nil || !strings.Contains(string(result), "hello from greet") {
		t.Errorf("result %s, error %v", result, refusal)
	}
	result, _ = w.ask("tools", `{"query":"SAYS web"}`)
	want := `{"tools":[{"name":"web__greet","server":"web","tool":"greet","description":"says hello"}]}`
	if string(result) != want {
		t.Errorf("got  %s\nwant %s", result, want)
	}
}

func TestInvariant5_ControlCallPassesTheReplyUnchanged(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "server.sh")
	text := `while read -r line; do case $line in
		*\"initialize\"*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}';;
		*tools/list*) echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}';;
		*tools/call*) echo '{"jsonrpc":"2.0","id":3,"result":{ "content":[], "n":9007199254740993, "s":"<&>" }}';;
	esac; done`
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newFunnel(t, `{"mcpServers": {"s": {"command": "sh", "args": ["`+script+`"]}}}`)
	w.run()
	w.until(allConnected)
	result, refusal := w.ask("call", `{"tool":"s__t"}`)
	want := `{"response":{"jsonrpc":"2.0","id":1,"result":{ "content":[], "n":9007199254740993, "s":"<&>" }}}`
	if refusal != nil || string(result) != want {
		t.Errorf("got  %s (%v)\nwant %s", result, refusal, want)
	}
}

func TestStatusHasTheFieldsOfTheContract(t *testing.T) {
	w := newFunnel(t, `{"mcpServers": {"web": {"url": "`+httpServer(t, "greet")+`"}}}`)
	w.run()
	w.until(func(s status.Snapshot) bool { return s.ExposedTools == 1 })
	result, refusal := w.ask("status", "{}")
	if refusal != nil {
		t.Fatal(refusal)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(result, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"version", "pid", "mode", "uptimeSeconds", "goroutines", "runtimeDir", "socket", "config", "tray", "exposedTools", "sessions", "servers"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("status has no %q", name)
		}
	}
	if string(fields["exposedTools"]) != "1" {
		t.Errorf("exposedTools %s", fields["exposedTools"])
	}
}

func TestC133_HiddenToolsAndDisabledServersAreNotCallable(t *testing.T) {
	url := httpServer(t, "secret")
	w := newFunnel(t, `{"mcpServers": {"web": {"url": "`+url+`"}}, "hideTools": ["web__*"]}`)
	w.run()
	w.until(allConnected)
	if _, refusal := w.ask("call", `{"tool":"web__secret"}`); refusal == nil {
		t.Error("a hidden tool was called")
	}
	w.write(`{"mcpServers": {"web": {"url": "` + url + `"}}}`)
	w.until(func(s status.Snapshot) bool { return s.ExposedTools == 1 })
	if _, refusal := w.ask("call", `{"tool":"web__secret"}`); refusal != nil {
		t.Errorf("no longer hidden: %v", refusal)
	}
	if _, refusal := w.ask("disable", `{"name":"web"}`); refusal != nil {
		t.Fatal(refusal)
	}
	w.until(func(s status.Snapshot) bool { return s.ExposedTools == 0 })
	if _, refusal := w.ask("call", `{"tool":"web__secret"}`); refusal == nil {
		t.Error("a tool of a disabled server was called")
	}
}

func TestUnknownServerIsNamedWithThoseThereAre(t *testing.T) {
	w := newFunnel(t, `{"mcpServers": {"a": {"command": "x", "enabled": false}}}`)
	for _, method := range []string{"reconnect", "enable", "disable"} {
		_, refusal := w.ask(method, `{"name":"b"}`)
		if refusal == nil || refusal.Code != jsonrpc.CodeInvalidParams || !strings.Contains(refusal.Message, "there are a") {
			t.Errorf("%s: %v", method, refusal)
		}
	}
	if _, refusal := w.ask("enable", `{"name":"a"}`); refusal == nil || !strings.Contains(refusal.Message, "disabled in the config") {
		t.Errorf("enabling what the config disables: %v", refusal)
	}
}

func TestDeletedConfigStopsNothing(t *testing.T) {
	w := newFunnel(t, `{"mcpServers": {"web": {"url": "`+httpServer(t, "greet")+`"}}}`)
	w.run()
	w.until(allConnected)
	if err := os.Remove(w.config); err != nil {
		t.Fatal(err)
	}
	snap := w.until(func(s status.Snapshot) bool { return s.Config.Error != "" })
	if !allConnected(snap) || !strings.Contains(snap.Config.Error, "gone") {
		t.Errorf("error %q, servers %+v", snap.Config.Error, snap.Servers)
	}
	w.write(`{"mcpServers": {}}`) // an empty one is the user's word
	w.until(func(s status.Snapshot) bool { return len(s.Servers) == 0 && s.Config.Error == "" })
}

// The tools of the last life are listed from the first moment of the next one, as
// stale, and their bytes are those of the server.
func TestToolsAreRememberedOverARestart(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "server.sh")
	answer := func(tool string) string {
		return `while read -r line; do case $line in
		*\"initialize\"*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}';;
		*tools/list*) echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[` + tool + `]}}';;
	esac; done`
	}
	tool := `{ "name":"t", "x-n":9007199254740993,"description":"<&>","inputSchema":{"type":"object","properties":{}}}`
	if err := os.WriteFile(script, []byte(answer(tool)), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newFunnel(t, `{"mcpServers": {"s": {"command": "sh", "args": ["`+script+`"]}}}`)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.funnel.Run(ctx) }()
	w.until(func(s status.Snapshot) bool { return s.ExposedTools == 1 })
	cancel()
	<-done

	if err := os.WriteFile(script, []byte("sleep 600"), 0o600); err != nil { // it never comes up again
		t.Fatal(err)
	}
	next := &world{t: t, dir: w.dir, config: w.config, funnel: New(w.funnel.options)}
	next.run()
	snap := next.until(func(s status.Snapshot) bool { return s.ExposedTools == 1 })
	if s := snap.Servers[0]; !s.Stale || s.Tools != 1 || s.State != status.Connecting {
		t.Errorf("server %+v", s)
	}
	<-next.funnel.ready // nothing holds the list
	if u, _ := next.funnel.supervisor.Lookup("s"); true {
		if lists, _ := u.Lists(); string(lists.Tools[0]) != tool {
			t.Errorf("the tool is now %s", lists.Tools[0])
		}
	}
	next.write(`{"mcpServers": {"s": {"command": "sh", "args": ["-c", "sleep 600"]}}}`)
	other := openMemory(filepath.Join(w.dir, "state", "catalog.json"), slog.New(slog.DiscardHandler))
	for _, entry := range next.funnel.Config().Servers {
		if entry.Args = []string{"other"}; !other.lists(entry).Empty() {
			t.Error("tools of another entry were taken for this one's")
		}
	}
}

func TestBrokenMemoryIsEmpty(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"servers":5}`, `{"servers":{"s":{"entry":"x","tools":7}}}`} {
		path := filepath.Join(t.TempDir(), "catalog.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m := openMemory(path, slog.New(slog.DiscardHandler))
		if lists := m.lists(config.Server{Name: "s"}); !lists.Empty() {
			t.Errorf("%q gave %v", text, lists)
		}
	}
}

func TestReloadTellsWhatIsWrongAndWhere(t *testing.T) {
	w := newFunnel(t, `{"mcpServers": {}}`)
	w.write("{\n  \"mcpServers\": oops }")
	_, refusal := w.ask("reload", "{}")
	if refusal == nil || !strings.Contains(refusal.Message, "config.json:2:") || string(refusal.Data) != exitInvalid {
		t.Errorf("reload: %+v", refusal)
	}
	if w.funnel.ConfigError() == nil {
		t.Error("the error is not kept")
	}
}

// Invariant 9: a state file that cannot be read is not written over.
func TestInvariant9_UnreadableStateIsNotWrittenOver(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	if err := os.WriteFile(path, []byte("{ not JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openState(path)
	if err := s.setDisabled("a", true); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("writing over it: %v", err)
	}
	if content, _ := os.ReadFile(path); string(content) != "{ not JSON" {
		t.Errorf("it is now %q", content)
	}
}

func TestStateKeepsWhatItDoesNotUnderstand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "state.json")
	if err := openState(path).setDisabled("a", true); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte(`{"future": {"n": 9007199254740993},`), content[1:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openState(path)
	if !s.disabled("a") {
		t.Error("it forgot")
	}
	if err := s.setDisabled("a", false); err != nil {
		t.Fatal(err)
	}
	content, err = os.ReadFile(path)
	if err != nil || !strings.Contains(string(content), "9007199254740993") || openState(path).disabled("a") {
		t.Errorf("%s, %v", content, err)
	}
}

// Invariant 7: Run leaves no goroutine, with sessions attached and a server that is
// being connected. TestMain checks.
func TestInvariant7_RunLeavesNoGoroutine(t *testing.T) {
	w := newFunnel(t, `{"mcpServers": {"web": {"url": "`+httpServer(t, "greet")+`"}, "slow": {"command": "sleep", "args": ["600"]}}}`)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.funnel.Run(ctx) }()
	ours, theirs := net.Pipe()
	over := make(chan error, 1)
	go func() {
		over <- w.funnel.ServeBridge(ctx, w.funnel.NewSessionID(), theirs, bufio.NewReader(theirs), hub.Peer{})
	}()
	w.until(func(s status.Snapshot) bool { return len(s.Sessions) == 1 })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	<-over
	_ = ours.Close()
}

func TestEventsStream(t *testing.T) {
	w := newFunnel(t, `{"mcpServers": {"web": {"url": "`+httpServer(t, "greet")+`"}}}`)
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.funnel.ServeControl(ctx, theirs, bufio.NewReader(theirs))
	}()
	defer func() { cancel(); _ = ours.Close(); <-done }()
	lines := bufio.NewReader(ours)
	if _, err := ours.Write(append(jsonrpc.NewRequest(1, "events", nil), '\n')); err != nil {
		t.Fatal(err)
	}
	if line, err := lines.ReadString('\n'); err != nil || line != `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n" {
		t.Fatalf("%s, %v", line, err)
	}
	w.run()
	for _, want := range []string{status.EventConnecting, status.EventConnected} {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Params status.Event }
		if err := json.Unmarshal(line, &got); err != nil || got.Params.Name != want || got.Params.Server != "web" {
			t.Errorf("got %s, want %s", line, want)
		}
	}
}

func TestQuitIsPassedOnWithItsReason(t *testing.T) {
	w := newFunnel(t, `{}`)
	if _, refusal := w.ask("quit", `{"reason":"replace"}`); refusal != nil {
		t.Fatal(refusal)
	}
	if got := <-w.quit; got != "replace" {
		t.Errorf("reason %q", got)
	}
}

func TestServerLogPathTellsLookAlikesApart(t *testing.T) {
	a, b := ServerLogPath("/s", "a b"), ServerLogPath("/s", "a_b")
	if a == b || filepath.Dir(a) != "/s/log" || !strings.HasPrefix(filepath.Base(a), "server-a_b-") {
		t.Errorf("%s and %s", a, b)
	}
}
