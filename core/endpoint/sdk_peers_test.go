package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-funnel/core"
	"mcp-funnel/core/status"
)

// stack is all there is between a client made with somebody else's library and a server
// made with one: endpoint, hub, upstream.
type stack struct {
	*world
	funnel *core.Funnel
	// release lets the tool "work" end; cancelled gets a token when "wait" was cancelled;
	// addTool changes the server's list.
	release   chan struct{}
	waiting   chan struct{}
	cancelled chan struct{}
	addTool   func()
}

func newStack(t *testing.T) *stack {
	t.Helper()
	s := &stack{release: make(chan struct{}), waiting: make(chan struct{}, 10), cancelled: make(chan struct{}, 10)}
	dir := t.TempDir()
	config := filepath.Join(dir, "config.json")
	text := fmt.Sprintf(`{"mcpServers":{"s":{"type":"http","url":%q,"prefix":""}}}`, s.serveSDK(t))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.funnel = core.New(core.Options{
		ConfigPath: config, RuntimeDir: dir, StateDir: filepath.Join(dir, "state"), Home: dir,
		Environ: []string{"PATH=" + os.Getenv("PATH"), "SHELL=/bin/sh", "HOME=" + dir}, Version: "1",
		Mode: func() string { return "headless" }, Quit: func(string) {}, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.funnel.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	eventually(t, "the server is connected", func() bool {
		server, _ := s.funnel.Board().Snapshot().Server("s")
		return server.State == status.Connected && s.funnel.Board().Snapshot().ExposedTools > 0
	})
	s.world = &world{t: t, path: filepath.Join(dir, "state", "http-token"), reports: make(chan status.HTTP, 100), client: &http.Client{Transport: &http.Transport{}}}
	s.e = New(Deps{
		Serve: s.funnel.ServeBridge, NewID: s.funnel.NewSessionID, TokenPath: s.path,
		Report: func(h status.HTTP) { s.reports <- h }, Log: slog.New(slog.DiscardHandler),
	})
	s.open()
	t.Cleanup(func() { s.stop() })
	return s
}

// serveSDK runs the server and returns its address.
func (s *stack) serveSDK(t *testing.T) string {
	server := gosdk.NewServer(&gosdk.Implementation{Name: "peer", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object"}`)
	say := func(text string, err error) (*gosdk.CallToolResult, error) {
		if err != nil {
			return nil, err
		}
		return &gosdk.CallToolResult{Content: []gosdk.Content{&gosdk.TextContent{Text: text}}}, nil
	}
	for name, work := range map[string]func(context.Context, *gosdk.CallToolRequest) (string, error){
		"echo": func(_ context.Context, r *gosdk.CallToolRequest) (string, error) {
			return string(r.Params.Arguments), nil
		},
		"work": func(ctx context.Context, r *gosdk.CallToolRequest) (string, error) {
			for n := range 3 {
				params := &gosdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(n)}
				if err := r.Session.NotifyProgress(ctx, params); err != nil {
					return "", err
				}
			}
			<-s.release
			return "done", nil
		},
		"wait": func(ctx context.Context, _ *gosdk.CallToolRequest) (string, error) {
			s.waiting <- struct{}{}
			<-ctx.Done()
			s.cancelled <- struct{}{}
			return "", ctx.Err()
		},
		"ask": func(ctx context.Context, r *gosdk.CallToolRequest) (string, error) {
			answer, err := r.Session.Elicit(ctx, &gosdk.ElicitParams{Message: "name?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
			if err != nil {
				return "", err
			}
			return fmt.Sprint(answer.Action, " ", answer.Content["name"]), nil
		},
		"sample": func(ctx context.Context, r *gosdk.CallToolRequest) (string, error) {
			//nolint:staticcheck // sampling is of the versions that are spoken here
			answer, err := r.Session.CreateMessage(ctx, &gosdk.CreateMessageParams{MaxTokens: 9, Messages: []*gosdk.SamplingMessage{{Role: "user", Content: &gosdk.TextContent{Text: "hello"}}}})
			if err != nil {
				return "", err
			}
			return "the model says " + answer.Content.(*gosdk.TextContent).Text, nil
		},
	} {
		server.AddTool(&gosdk.Tool{Name: name, InputSchema: schema}, func(ctx context.Context, r *gosdk.CallToolRequest) (*gosdk.CallToolResult, error) {
			return say(work(ctx, r))
		})
	}
	s.addTool = func() {
		server.AddTool(&gosdk.Tool{Name: "more", InputSchema: schema}, func(context.Context, *gosdk.CallToolRequest) (*gosdk.CallToolResult, error) {
			return say("more", nil)
		})
	}
	web := httptest.NewServer(gosdk.NewStreamableHTTPHandler(func(*http.Request) *gosdk.Server { return server }, nil))
	t.Cleanup(func() {
		for session := range server.Sessions() {
			_ = session.Close()
		}
		web.Close()
	})
	return web.URL
}

// caller is a client of somebody else's making.
type caller struct {
	tools func() []string
	// call returns the text of a result.
	call func(ctx context.Context, tool, arguments string) (string, error)
	// told gets "progress N" and "list changed".
	told chan string
	// close ends the session; cancels: the client says so when it gives up a call.
	close   func()
	cancels bool
}

func goSDKCaller(t *testing.T, s *stack, h *http.Client) *caller {
	t.Helper()
	c := &caller{told: make(chan string, 100), cancels: true}
	client := gosdk.NewClient(&gosdk.Implementation{Name: "go-sdk", Version: "1"}, &gosdk.ClientOptions{
		ElicitationHandler: func(context.Context, *gosdk.ElicitRequest) (*gosdk.ElicitResult, error) {
			return &gosdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
		//nolint:staticcheck // sampling is of the versions that are spoken here
		CreateMessageHandler: func(_ context.Context, r *gosdk.CreateMessageRequest) (*gosdk.CreateMessageResult, error) {
			//nolint:staticcheck // as above
			return &gosdk.CreateMessageResult{Model: "m", Role: "assistant", Content: r.Params.Messages[0].Content}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *gosdk.ProgressNotificationClientRequest) {
			c.told <- fmt.Sprintf("progress %v of %v", r.Params.Progress, r.Params.ProgressToken)
		},
		ToolListChangedHandler: func(context.Context, *gosdk.ToolListChangedRequest) { c.told <- "list changed" },
	})
	session, err := client.Connect(t.Context(), &gosdk.StreamableClientTransport{Endpoint: s.url, HTTPClient: h}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.close = func() { _ = session.Close() }
	t.Cleanup(c.close)
	c.tools = func() []string {
		var names []string
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
		}
		return names
	}
	c.call = func(ctx context.Context, tool, arguments string) (string, error) {
		params := &gosdk.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)}
		params.SetProgressToken("p1")
		r, err := session.CallTool(ctx, params)
		if err != nil {
			return "", err
		}
		return r.Content[0].(*gosdk.TextContent).Text, nil
	}
	return c
}

// ada answers a server's requests.
type ada struct{}

func (ada) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: "accept", Content: map[string]any{"name": "Ada"}}}, nil
}

func (ada) CreateMessage(context.Context, mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	return &mcp.CreateMessageResult{Model: "m", SamplingMessage: mcp.SamplingMessage{Role: "assistant", Content: mcp.NewTextContent("hello")}}, nil
}

func mcpGoCaller(t *testing.T, s *stack, h *http.Client) *caller {
	t.Helper()
	c := &caller{told: make(chan string, 100)}
	trans, err := transport.NewStreamableHTTP(s.url+"/"+s.token, // it sends its own headers with all but DELETE
		//nolint:staticcheck // as above: it listens only so
		transport.WithContinuousListening(), transport.WithHTTPBasicClient(h), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	client := mcpclient.NewClient(trans, mcpclient.WithElicitationHandler(ada{}), mcpclient.WithSamplingHandler(ada{}))
	client.OnNotification(func(n mcp.JSONRPCNotification) {
		switch n.Method {
		case "notifications/progress":
			c.told <- fmt.Sprintf("progress %v of %v", n.Params.AdditionalFields["progress"], n.Params.AdditionalFields["progressToken"])
		case "notifications/tools/list_changed":
			c.told <- "list changed"
		}
	})
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.close = func() { _ = client.Close() }
	t.Cleanup(c.close)
	if _, err := client.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	c.tools = func() []string {
		r, err := client.ListTools(t.Context(), mcp.ListToolsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range r.Tools {
			names = append(names, tool.Name)
		}
		return names
	}
	c.call = func(ctx context.Context, tool, arguments string) (string, error) {
		r := mcp.CallToolRequest{}
		r.Params.Name, r.Params.Arguments = tool, json.RawMessage(arguments)
		r.Params.Meta = &mcp.Meta{ProgressToken: "p1"}
		result, err := client.CallTool(ctx, r)
		if err != nil {
			return "", err
		}
		return result.Content[0].(mcp.TextContent).Text, nil
	}
	return c
}

// eachSDK runs a test with a client of either library.
func eachSDK(t *testing.T, test func(*testing.T, *stack, *caller, *breaking)) {
	for name, connect := range map[string]func(*testing.T, *stack, *http.Client) *caller{"go-sdk": goSDKCaller, "mcp-go": mcpGoCaller} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t)
			b := &breaking{inner: &http.Transport{}}
			if name == "go-sdk" {
				b.bearer = s.token
			}
			t.Cleanup(b.inner.CloseIdleConnections)
			test(t, s, connect(t, s, &http.Client{Transport: b}), b)
		})
	}
}

// breaking is a network that ends event streams when the test says so.
type breaking struct {
	inner *http.Transport
	// bearer goes into the headers.
	bearer string
	// resumed counts the requests that go on with a stream.
	resumed atomic.Int32

	mu    sync.Mutex
	posts []*brokenBody
}

type brokenBody struct {
	io.ReadCloser
	broken atomic.Bool
}

func (b *brokenBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.broken.Load() {
		return n, io.EOF
	}
	return n, err
}

func (b *breaking) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Last-Event-Id") != "" {
		b.resumed.Add(1)
	}
	if b.bearer != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.bearer)
	}
	response, err := b.inner.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost && strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		body := &brokenBody{ReadCloser: response.Body}
		response.Body = body
		b.mu.Lock()
		b.posts = append(b.posts, body)
		b.mu.Unlock()
	}
	return response, err
}

// breakPosts breaks the streams of requests.
func (b *breaking) breakPosts() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, body := range b.posts {
		body.broken.Store(true)
		_ = body.Close()
	}
}

// hears waits for news.
func (c *caller) hears(t *testing.T, want string) {
	t.Helper()
	for {
		select {
		case got := <-c.told:
			if got == want {
				return
			}
		case <-time.After(patience):
			t.Fatalf("never told: %s", want)
		}
	}
}
