//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-funnel/core"
)

// withHTTP is oneServer with an HTTP endpoint at address.
func withHTTP(address string) string {
	return strings.Replace(oneServer, "{", fmt.Sprintf(`{"http": {"listen": %q},`, address), 1)
}

// httpSession attaches somebody else's client over HTTP.
func (s *sandbox) httpSession(listen string) *gosdk.ClientSession {
	s.t.Helper()
	token, err := os.ReadFile(filepath.Join(s.dir, "state", "mcp-funnel", "http-token"))
	if err != nil {
		s.t.Fatal(err)
	}
	web := &http.Transport{}
	client := gosdk.NewClient(&gosdk.Implementation{Name: "web", Version: "1"}, nil)
	session, err := client.Connect(s.t.Context(), &gosdk.StreamableClientTransport{
		Endpoint: "http://" + listen + "/mcp/" + strings.TrimSpace(string(token)), HTTPClient: &http.Client{Transport: web},
	}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = session.Close()
		web.CloseIdleConnections()
	})
	return session
}

func TestClientOverHTTPUsesTheServersLikeAnyOther(t *testing.T) {
	s := newSandbox(t, withHTTP("127.0.0.1:0"))
	app := s.start("serve")
	listen := s.report(func(r core.Report) bool { return r.HTTP.Listen != "" && r.HTTP.Listen != "127.0.0.1:0" }).HTTP.Listen
	session := s.httpSession(listen)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := session.CallTool(ctx, &gosdk.CallToolParams{Name: "demo__add", Arguments: map[string]any{"a": 2, "b": 40}})
	if err != nil || r.Content[0].(*gosdk.TextContent).Text != "42" {
		t.Errorf("%+v, %v", r, err)
	}
	now := s.report(func(r core.Report) bool { return len(r.Sessions) == 1 && r.Sessions[0].Calls == 1 })
	if got := now.Sessions[0]; got.Client.Name != "web" || got.PID != 0 || got.CWD != "" {
		t.Errorf("session %+v", got)
	}
	text, _, _ := s.run("status")
	if !strings.Contains(text, "HTTP:    http://"+listen+"/mcp\n") {
		t.Errorf("status says\n%s", text)
	}
	path := filepath.Join(s.dir, "state", "mcp-funnel", "http-token")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("token file %v, %v", info, err)
	}
	// The token is nowhere else.
	token, _ := os.ReadFile(path)
	log, _ := os.ReadFile(filepath.Join(s.dir, "state", "mcp-funnel", "log", "funnel.log"))
	encoded, _, _ := s.run("status", "--json")
	for _, place := range []string{text, encoded, string(log), app.stderr.String()} {
		if strings.Contains(place, strings.TrimSpace(string(token))) {
			t.Errorf("the token is in %s", place)
		}
	}
	begun := time.Now()
	if _, errs, code := s.run("quit"); code != 0 || time.Since(begun) > 10*time.Second {
		t.Errorf("quit with an open stream: %d %s after %s", code, errs, time.Since(begun))
	}
}

// C136: no TCP listener by default; it comes and goes with the config.
func TestC136_EndpointFollowsTheConfig(t *testing.T) {
	s := newSandbox(t, oneServer)
	s.start("serve")
	out, _, _ := s.run("status")
	if strings.Contains(out, "HTTP:") {
		t.Errorf("without an endpoint status says\n%s", out)
	}
	s.writeConfig(withHTTP("127.0.0.1:0"))
	listen := s.report(func(r core.Report) bool { return r.HTTP.Listen != "" }).HTTP.Listen
	s.httpSession(listen)
	s.writeConfig(withHTTP("0.0.0.0:0"))
	r := s.report(func(r core.Report) bool { return r.HTTP.Listen == "" && len(r.Sessions) == 0 })
	if len(r.ConfigWarnings) != 1 || !strings.Contains(r.ConfigWarnings[0], "http.listen") || !strings.Contains(r.ConfigWarnings[0], "allowRemote") {
		t.Errorf("warnings %v", r.ConfigWarnings)
	}
	if c, err := net.Dial("tcp", listen); err == nil {
		_ = c.Close()
		t.Error("the old port is still open")
	}
}

func TestPortInUseIsInTheStatusUntilItIsFree(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	s := newSandbox(t, withHTTP(address))
	s.start("serve")
	s.report(func(r core.Report) bool { return r.HTTP.Listen == address && strings.Contains(r.HTTP.Error, address) })
	if out, _, _ := s.run("status"); !strings.Contains(out, "HTTP:    not open: ") {
		t.Errorf("status says\n%s", out)
	}
	_ = taken.Close()
	s.report(func(r core.Report) bool { return r.HTTP.Listen == address && r.HTTP.Error == "" })
}
