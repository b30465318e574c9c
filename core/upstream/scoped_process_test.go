package upstream

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/config"
	"mcp-funnel/core/environ"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
	identity "mcp-funnel/singleton/process"
)

// entryOf reads the entry of one server as a user writes it.
func entryOf(t *testing.T, text string) config.Server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{"mcpServers":{"s":`+text+`}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path, config.Options{Lookup: os.LookupEnv, Home: t.TempDir()})
	if err != nil || c.Servers[0].Problem != nil {
		t.Fatal(err, c.Servers[0].Problem)
	}
	return c.Servers[0]
}

// where is what a process said of itself.
type where struct{ dir, variable, arguments, pid string }

// whereabouts asks the instance of a session.
func whereabouts(t *testing.T, server Server, s *fakeSession) where {
	t.Helper()
	r := request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"where"}}`, s)
	r.From = s
	server.Forward(r)
	var reply struct {
		Result []string
		Error  json.RawMessage
	}
	if err := json.Unmarshal([]byte(s.inbox.wait(t)), &reply); err != nil || len(reply.Result) != 4 {
		t.Fatalf("%v, %s", err, reply.Error)
	}
	return where{reply.Result[0], reply.Result[1], reply.Result[2], reply.Result[3]}
}

func alive(t *testing.T, pid string) bool {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	_, err = identity.StartTime(n)
	return err == nil
}

// eventually waits for something that takes a moment.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain until " + what)
		}
	}
}

// Two folders are two processes, each in its own; one that nobody uses ends, and
// nothing is left at the end (invariant 3).
func TestInvariant3_EachProjectHasAProcessOfItsOwn(t *testing.T) {
	quoted := func(s string) string { return string(jsonrpc.Quote(s)) }
	entry := entryOf(t, `{"command":`+quoted(os.Args[0])+`,"args":["--in=${PROJECT_DIR}"],"idleTimeoutMs":300,
		"env":{"WHERE":"${PROJECT_DIR}/data","`+childMode+`":"ok","GORACE":"atexit_sleep_ms=0"}}`)
	board := status.NewBoard()
	log := slog.New(slog.DiscardHandler)
	list := filepath.Join(t.TempDir(), "children.json")
	launcher := &Launcher{
		Environment: func(context.Context) environ.Env { return environ.New(os.Environ()) }, Home: t.TempDir(),
		OpenLog: func(string) io.WriteCloser { return discard{} }, Custody: OpenCustody(list, log), Log: log,
	}
	supervisor := NewSupervisor(Deps{
		Open: launcher.Open, Self: mcp.Implementation{Name: "test", Version: "1"}, Board: board, Events: status.NewEvents(100, nil),
		Remembered: func(config.Server) Lists { return Lists{} }, NewsFor: func(string, []string, jsonrpc.Message) {},
		WantedBy: func(string, []string) ([]string, string) { return nil, "" }, Changed: func() {}, Log: log, Random: half,
	})
	supervisor.Apply([]config.Server{entry}, func(string) bool { return false })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = supervisor.Run(ctx) }()
	defer func() { cancel(); <-done }()
	server, _ := supervisor.Lookup("s")

	dirs := folders(t, 2)
	first, again, other := newSessionIn("s1", dirs[0]), newSessionIn("s2", dirs[0]), newSessionIn("s3", dirs[1])
	one, same, two := whereabouts(t, server, first), whereabouts(t, server, again), whereabouts(t, server, other)
	for i, w := range []where{one, two} {
		if w.dir != dirs[i] || w.variable != dirs[i]+"/data" || w.arguments != "--in="+dirs[i] {
			t.Errorf("project %s runs as %+v", dirs[i], w)
		}
	}
	if one.pid == two.pid || one != same {
		t.Errorf("processes %s, %s and %s", one.pid, same.pid, two.pid)
	}
	var children []child
	text, err := os.ReadFile(list)
	if err == nil {
		err = json.Unmarshal(text, &children)
	}
	if err != nil || len(children) != 2 || children[0].Server != "s" {
		t.Errorf("in custody: %v, %s", err, text)
	}
	supervisor.Left(first)
	supervisor.Left(other)
	eventually(t, "the unused one is gone", func() bool { return !alive(t, two.pid) })
	if !alive(t, one.pid) {
		t.Error("one that is used was ended")
	}
	eventually(t, "it is not shown", func() bool {
		s, _ := board.Snapshot().Server("s")
		return len(s.Instances) == 1 && strconv.Itoa(s.Instances[0].PID) == one.pid
	})
	cancel()
	<-done
	if alive(t, one.pid) {
		t.Error("a process is left after the end")
	}
	if _, err := os.Stat(list); err == nil {
		t.Error("the list of processes is left")
	}
}
