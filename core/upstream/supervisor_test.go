package upstream

import (
	"log/slog"
	"testing"
	"time"

	"mcp-funnel/core/config"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

// A server that was taken out of the config must not come back onto the board while
// it is being stopped.
func TestServerThatLeftIsNotShownAgain(t *testing.T) {
	board := status.NewBoard()
	s := NewSupervisor(Deps{Board: board, Events: status.NewEvents(10, nil), Remembered: func(config.Server) Lists { return Lists{} }, News: func(string, jsonrpc.Message) {},
		Wanted: func(string) ([]string, string) { return nil, "" }, Changed: func() {}, Log: slog.New(slog.DiscardHandler), Random: half})
	entry := config.Server{Name: "s", Type: config.Stdio, Enabled: true, StartupTimeout: time.Second, Reconnect: testPolicy()}
	s.Apply([]config.Server{entry}, func(string) bool { return false })
	u, _ := s.Lookup("s")
	if servers := board.Snapshot().Servers; len(servers) != 1 || servers[0].State != status.Connecting {
		t.Fatalf("at first: %+v", servers)
	}
	s.Apply(nil, func(string) bool { return false })
	one, ok := u.(*Upstream)
	if !ok {
		t.Fatal("no single server")
	}
	one.show()
	if servers := board.Snapshot().Servers; len(servers) != 0 {
		t.Errorf("it is shown again: %+v", servers)
	}
}
