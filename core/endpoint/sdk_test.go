package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/status"
)

func TestSDKClientListsAndCalls(t *testing.T) {
	eachSDK(t, func(t *testing.T, s *stack, c *caller, _ *breaking) {
		names := c.tools()
		slices.Sort(names)
		if got := strings.Join(names, " "); got != "ask echo sample wait work" {
			t.Errorf("tools %s", got)
		}
		const arguments = `{"n":9223372036854775807,"e":1e400,"s":"\u003c\u2028"}`
		if got, err := c.call(t.Context(), "echo", arguments); err != nil || got != arguments {
			t.Errorf("echo: %s, %v", got, err)
		}
		if list := s.funnel.Board().Snapshot().Sessions; len(list) != 1 || list[0].PID != 0 || list[0].CWD != "" {
			t.Errorf("sessions %+v", list)
		}
	})
}

func TestSDKClientMakesManyCallsAtOnce(t *testing.T) {
	eachSDK(t, func(t *testing.T, _ *stack, c *caller, _ *breaking) {
		var calls sync.WaitGroup
		for n := range 50 {
			calls.Go(func() {
				arguments := fmt.Sprintf(`{"n":%d}`, n)
				if got, err := c.call(t.Context(), "echo", arguments); err != nil || got != arguments {
					t.Errorf("call %d: %s, %v", n, got, err)
				}
			})
		}
		calls.Wait()
	})
}

func TestC89_SDKClientIsToldOfProgress(t *testing.T) {
	eachSDK(t, func(t *testing.T, s *stack, c *caller, _ *breaking) {
		done := make(chan error, 1)
		go func() { _, err := c.call(t.Context(), "work", `{}`); done <- err }()
		c.hears(t, "progress 1 of p1")
		c.hears(t, "progress 2 of p1")
		close(s.release)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestSDKClientResumesItsCall(t *testing.T) {
	eachSDK(t, func(t *testing.T, s *stack, c *caller, b *breaking) {
		type outcome struct {
			text string
			err  error
		}
		done := make(chan outcome, 1)
		go func() {
			text, err := c.call(t.Context(), "work", `{}`)
			done <- outcome{text, err}
		}()
		c.hears(t, "progress 2 of p1")
		b.breakPosts()
		eventually(t, "the client comes back", func() bool { return b.resumed.Load() > 0 })
		close(s.release)
		got := <-done
		if got.err != nil || got.text != "done" {
			t.Errorf("%q, %v", got.text, got.err)
		}
	})
}

func TestC87_SDKClientCancels(t *testing.T) {
	eachSDK(t, func(t *testing.T, s *stack, c *caller, _ *breaking) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, err := c.call(ctx, "wait", `{}`); done <- err }()
		<-s.waiting
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the call ended with %v", err)
		}
		if got, err := c.call(t.Context(), "echo", `{}`); err != nil || got != "{}" {
			t.Errorf("the next call: %s, %v", got, err)
		}
		if !c.cancels { // a lost connection is no cancellation (MCP transports), the end of the session is
			select {
			case <-s.cancelled:
				t.Error("the server was told too early")
			case <-time.After(50 * time.Millisecond):
			}
			c.close()
		}
		select {
		case <-s.cancelled:
		case <-time.After(patience):
			t.Error("the server was not told")
		}
	})
}

func TestC93_SDKClientAnswersTheServersRequests(t *testing.T) {
	eachSDK(t, func(t *testing.T, _ *stack, c *caller, _ *breaking) {
		for tool, want := range map[string]string{"ask": "accept Ada", "sample": "the model says hello"} {
			if got, err := c.call(t.Context(), tool, `{}`); err != nil || got != want {
				t.Errorf("%s: %q, %v", tool, got, err)
			}
		}
	})
}

func TestC91_SDKClientIsToldOfChangedLists(t *testing.T) {
	eachSDK(t, func(t *testing.T, s *stack, c *caller, _ *breaking) {
		c.tools()
		s.addTool()
		c.hears(t, "list changed")
		if names := c.tools(); !slices.Contains(names, "more") {
			t.Errorf("tools %v", names)
		}
	})
}

// A result as a server wrote it, through everything.
func TestInvariant5_BytesThroughTheWholeStack(t *testing.T) {
	const result = `{"content":[],"structuredContent":{"n":9223372036854775807,"e":1e400,"s":"\u2028\/<&>"},"x-vendor":1.0}`
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		body, _ := io.ReadAll(r.Body)
		if json.Unmarshal(body, &m) != nil || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		answer := map[string]string{
			"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`,
			"tools/list": `{"tools":[{"name":"raw","inputSchema":{"type":"object","properties":{}}}]}`, "tools/call": result, "ping": `{}`,
		}[m.Method]
		if answer == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer)
	}))
	defer web.Close()
	s := newStack(t)
	text := fmt.Sprintf(`{"mcpServers":{"raw":{"type":"http","url":%q}}}`, web.URL)
	if err := os.WriteFile(filepath.Join(filepath.Dir(filepath.Dir(s.path)), "config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.funnel.Reload(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tool is there", func() bool {
		server, _ := s.funnel.Board().Snapshot().Server("raw")
		return server.State == status.Connected
	})
	p := s.attach()
	var got []byte
	eventually(t, "the tool can be called", func() bool {
		got, _ = io.ReadAll(p.post(`{"jsonrpc":"2.0","id":1e2,"method":"tools/call","params":{"name":"raw__raw","arguments":{}}}`).Body)
		return !bytes.Contains(got, []byte(`"error"`))
	})
	if want := `{"jsonrpc":"2.0","id":1e2,"result":` + result + `}`; string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A client that prefers the wire of 2026 is told at once that it is not spoken here.
func TestClientThatAsksForTheNewestFirst(t *testing.T) {
	s := newStack(t)
	web := &http.Transport{}
	t.Cleanup(web.CloseIdleConnections)
	client, err := mcpclient.NewStreamableHttpClient(s.url+"/"+s.token, transport.WithHTTPBasicClient(&http.Client{Transport: web}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	r, err := client.Initialize(t.Context(), mcp.InitializeRequest{})
	if err != nil || r.ProtocolVersion != "2025-11-25" {
		t.Errorf("%+v, %v", r, err)
	}
	if list, err := client.ListTools(t.Context(), mcp.ListToolsRequest{}); err != nil || len(list.Tools) != 5 {
		t.Errorf("%+v, %v", list, err)
	}
}
