//go:build e2e && linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestBridgeRelaysEverything lets go-sdk's client use all that go-sdk's server has: first
// without the funnel, then through bridge, socket and app with the server behind them, over
// stdio and over HTTP. All that the client is told and asked has to be the same.
func TestBridgeRelaysEverything(t *testing.T) {
	c := &conformance{server: everythingServer(t), address: freeAddress(t)}
	compare := func(u *user, direct []record, todo []bridgeStep) string {
		u.serve()
		got := converse(u, u.transport("bridge", u.command(u.launcher, "bridge")), todo, direct)
		if diff := cmp.Diff(direct, got); diff != "" {
			u.t.Errorf("without the funnel (-) and through it (+):\n%s", diff)
		}
		said := 0
		for _, r := range got {
			said += len(r.Said)
		}
		return fmt.Sprintf("%d requests answered, with %d notifications and questions of the server, as without the funnel", len(got), said)
	}
	play(t, "stdio", c.config(`"command": "$SERVER"`), nil, func(u *user) string {
		return compare(u, converse(u, u.transport("direct", u.command(c.server)), steps(), nil), steps())
	})
	play(t, "http", c.config(`"type": "http", "url": "http://$ADDRESS/mcp"`), nil, func(u *user) string {
		// The server closes the stream of this call and does not keep what it would have
		// sent, so that the answer is lost without the funnel too.
		todo := slices.DeleteFunc(steps(), func(s bridgeStep) bool { return s.name == "call test_reconnection" })
		stop := c.serve(u)
		direct := converse(u, &mcp.StreamableClientTransport{Endpoint: "http://" + c.address + "/mcp"}, todo, nil)
		stop() // the steps have changed its lists
		defer c.serve(u)()
		return compare(u, direct, todo)
	})
}

// record is what a client was told in one step.
type record struct {
	Step string
	// Answer is the server's result or error.
	Answer string
	// Said are the server's notifications and questions, with the client's answers,
	// in alphabetical order: the client's library handles them side by side.
	Said []string
}

// converse takes all steps as a client, and returns what it was told. It waits in each
// step until as much has come as in the one to compare with, if there is one.
func converse(u *user, transport mcp.Transport, todo []bridgeStep, like []record) []record {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	l := &listener{}
	// Where both speak a newer version, the client would take it without the funnel.
	session, err := l.client().Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		u.t.Fatal("connecting:", err)
	}
	l.settle(0, quiet)
	l.take() // lists may change while a client attaches
	var records []record
	for i, s := range todo {
		r := record{Step: s.name, Answer: answer(s.do(ctx, session))}
		if i < len(like) {
			l.settle(len(like[i].Said), quiet/3) // only what is too much is waited for
		} else {
			l.settle(0, quiet)
		}
		r.Said = l.take()
		records = append(records, r)
	}
	if err := session.Close(); err != nil {
		u.t.Error("closing the session:", err)
	}
	return records
}

// answer writes a result or an error down, so that two can be compared.
func answer(result any, err error) string {
	var failure *jsonrpc.Error
	switch {
	case errors.As(err, &failure):
		return fmt.Sprintf("error %d %s %s", failure.Code, failure.Message, failure.Data)
	case err != nil:
		return "error: " + err.Error()
	}
	text, err := json.Marshal(result)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(text)
}

// listener writes down all that a server says by itself.
type listener struct {
	mu   sync.Mutex
	said []string
	last time.Time
}

// client makes a client that can do all that a server may ask for.
func (l *listener) client() *mcp.Client {
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, &mcp.ClientOptions{
		//nolint:staticcheck // the version that is spoken has it
		CreateMessageHandler: func(_ context.Context, _ *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "none", Content: &mcp.TextContent{Text: "sampled"}}, nil
		},
		ElicitationHandler: fillIn,
		// So that the client asks to be told; what it is told is written down below.
		ToolListChangedHandler:   func(context.Context, *mcp.ToolListChangedRequest) {},
		PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) {},
		//nolint:staticcheck // as above
		LoggingMessageHandler: func(context.Context, *mcp.LoggingMessageRequest) {},
	})
	client.AddRoots(&mcp.Root{URI: "file:///somewhere", Name: "somewhere"}) //nolint:staticcheck // as above
	client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			params := answer(r.GetParams(), nil)
			if params == "null" {
				params = "{}" // where nothing is to be said, both will do
			}
			handle := next
			if form, ok := r.(*mcp.ElicitRequest); ok {
				// The library refuses a form whose choices have titles, which is valid.
				handle = func(ctx context.Context, _ string, _ mcp.Request) (mcp.Result, error) { return fillIn(ctx, form) }
			}
			result, err := handle(ctx, method, r)
			l.heard(method + " " + params + " -> " + answer(result, err))
			return result, err
		}
	})
	return client
}

// fillIn answers a question for the user.
func fillIn(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	if strings.Contains(r.Params.Message, "refuse") {
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	return &mcp.ElicitResult{Action: "accept", Content: elicited(r.Params.RequestedSchema)}, nil
}

// field is one of a form, or its items.
type field struct {
	Type         string
	Default      any
	Enum         []any
	OneOf, AnyOf []struct{ Const any }
	Items        *field
}

// elicited fills in a form.
func elicited(schema any) map[string]any {
	var form struct{ Properties map[string]*field }
	if text, err := json.Marshal(schema); err != nil || json.Unmarshal(text, &form) != nil {
		return nil
	}
	content := map[string]any{}
	for name, f := range form.Properties {
		content[name] = f.value()
	}
	return content
}

// value is the field's default, or else what it allows.
func (f *field) value() any {
	switch choices := append(f.OneOf, f.AnyOf...); {
	case f.Default != nil:
		return f.Default
	case f.Items != nil:
		return []any{f.Items.value()}
	case len(choices) > 0:
		return choices[len(choices)-1].Const
	case len(f.Enum) > 0:
		return f.Enum[len(f.Enum)-1]
	}
	return "something"
}

func (l *listener) heard(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = time.Now()
	// A watched resource changes again and again.
	if !strings.HasPrefix(text, "notifications/resources/updated") || !slices.Contains(l.said, text) {
		l.said = append(l.said, text)
	}
}

// quiet is how long nothing comes when all has been said that belongs to a step.
const quiet = 150 * time.Millisecond

// settle waits until that much has been said, and then until it is quiet.
func (l *listener) settle(expected int, quiet time.Duration) {
	began := time.Now()
	for {
		l.mu.Lock()
		last, n := l.last, len(l.said)
		l.mu.Unlock()
		if last.Before(began) {
			last = began
		}
		if since := time.Since(last); since > patience/6 || since > quiet && n >= expected {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// take returns what has been said, and forgets it.
func (l *listener) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := l.said
	l.said = nil
	slices.Sort(said)
	return said
}
