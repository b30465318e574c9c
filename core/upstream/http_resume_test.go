package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-funnel/core/jsonrpc"
)

// resumable is a server that ends the stream of a call before it has the answer. next
// answers who goes on after an event.
type resumable struct {
	scriptedServer
	calls atomic.Int32
	// asked are the events after which was gone on, with the pauses before.
	asked  []string
	pauses []time.Duration
}

// resumableServer sends first in answer to a call.
func resumableServer(first func(m jsonrpc.Message) *http.Response, next func(event string, call jsonrpc.Message) *http.Response) *resumable {
	s := &resumable{}
	var call jsonrpc.Message
	var ended time.Time
	s.post = func(_ *http.Request, m jsonrpc.Message) (*http.Response, error) {
		if m.Kind != jsonrpc.Request {
			return respondWith(202, "", ""), nil
		}
		s.calls.Add(1)
		call, ended = m, time.Now()
		return first(m), nil
	}
	s.get = func(r *http.Request, _ int) (*http.Response, error) {
		event := r.Header.Get("Last-Event-ID")
		if event == "" {
			return respondWith(405, "", ""), nil
		}
		s.asked, s.pauses = append(s.asked, event), append(s.pauses, time.Since(ended))
		ended = time.Now()
		return next(event, call), nil
	}
	return s
}

// breaking is a stream that breaks after text instead of ending.
func breaking(text string) *http.Response {
	resp := respondWith(200, mediaEvents, "")
	resp.ContentLength = -1
	resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(text), brokenReader{}))
	return resp
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestHTTPStreamThatEndsEarlyIsGoneOnWith(t *testing.T) {
	for name, first := range map[string]*http.Response{
		"ended":  respondWith(200, mediaEvents, "id: a\nretry: 500\ndata:\n\n"),
		"broken": breaking("id: a\nretry: 500\ndata:\n\nid: never complete\ndata: {\"jsonrpc\""),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := resumableServer(func(jsonrpc.Message) *http.Response { return first },
					func(event string, call jsonrpc.Message) *http.Response {
						if event == "a" { // and the next one has no pause of its own
							return respondWith(200, mediaEvents, "id: b\ndata: "+oddNotice+"\n\n")
						}
						return respondWith(200, mediaEvents, "id: c\ndata: "+resultFor(call, `{"n":1.0}`)+"\n\n")
					})
				transport, sink := scripted(t, &s.scriptedServer)
				defer transport.Close()
				sendCall(t, transport, 2)
				if got := sink.next(t); got != oddNotice {
					t.Errorf("first came %s", got)
				}
				if got := sink.next(t); !strings.Contains(got, `"result":{"n":1.0}`) {
					t.Errorf("then came %s", got)
				}
				if diff := cmp.Diff([]string{"a", "b"}, s.asked); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff([]time.Duration{500 * time.Millisecond, 500 * time.Millisecond}, s.pauses); diff != "" {
					t.Error(diff)
				}
				if n := s.calls.Load(); n != 1 {
					t.Errorf("the call was sent %d times", n)
				}
			})
		})
	}
}

func TestHTTPStreamThatDoesNotGoOn(t *testing.T) {
	for name, test := range map[string]struct {
		first string
		// next is the status of who wants to go on, 0: nobody may.
		next int
		want string
	}{
		"not numbered":   {"retry: 10\ndata: " + oddNotice + "\n\n", 0, "ended its stream without an answer"},
		"no longer":      {"id: a\ndata:\n\nid:\ndata: " + oddNotice + "\n\n", 0, "ended its stream without an answer"},
		"unfit id":       {"id: a\tb\ndata: " + oddNotice + "\n\n", 0, "ended its stream without an answer"},
		"unknown event":  {"id: a\ndata: " + oddNotice + "\n\n", 400, "ended its stream without an answer"},
		"no such stream": {"id: a\ndata: " + oddNotice + "\n\n", 405, "ended its stream without an answer"},
		"session lost":   {"id: a\ndata: " + oddNotice + "\n\n", 404, "forgot the session"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := resumableServer(func(jsonrpc.Message) *http.Response { return respondWith(200, mediaEvents, test.first) },
					func(string, jsonrpc.Message) *http.Response { return respondWith(test.next, "text/plain", "no") })
				transport, sink := scripted(t, &s.scriptedServer)
				defer transport.Close()
				sendCall(t, transport, 2)
				sink.next(t)
				if err := sink.failed(t); !strings.Contains(err.Error(), test.want) {
					t.Errorf("it failed with %v, want %q", err, test.want)
				}
				if asked := len(s.asked); (asked > 0) != (test.next != 0) {
					t.Errorf("%d times it was gone on", asked)
				}
				var lost *SessionLostError
				if gone := transport.Err(); errors.As(gone, &lost) != (test.next == 404) {
					t.Errorf("the connection's error is %v", gone)
				}
			})
		})
	}
}

// A server may end the stream without end; who asked decides how long to wait.
func TestHTTPGoingOnEndsWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := resumableServer(func(jsonrpc.Message) *http.Response {
			return respondWith(200, mediaEvents, "id: a\nretry: 0\ndata:\n\n")
		},
			func(string, jsonrpc.Message) *http.Response {
				return respondWith(200, mediaEvents, ": nothing yet\n\n")
			})
		transport, sink := scripted(t, &s.scriptedServer)
		sendCall(t, transport, 2)
		time.Sleep(time.Minute)
		transport.Close()
		synctest.Wait()
		asked := len(s.asked)
		if asked < 10 || asked > 6000 {
			t.Errorf("in a minute it was asked %d times", asked)
		}
		time.Sleep(time.Minute)
		if len(s.asked) != asked {
			t.Error("a closed transport goes on asking")
		}
		select {
		case m := <-sink.messages:
			t.Errorf("there came %s", m.Raw)
		default:
		}
	})
}

// A server of go-sdk that keeps its events closes the stream of a call, and the answer
// comes all the same.
func TestHTTPServerOfGoSDKClosesTheStreamOfACall(t *testing.T) {
	noLeak(t)
	p := newSDKPeer()
	serveSDK(t, p, func() http.Handler {
		s := gosdk.NewServer(&gosdk.Implementation{Name: "peer", Version: "1"}, nil)
		s.AddTool(&gosdk.Tool{Name: "work", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *gosdk.CallToolRequest) (*gosdk.CallToolResult, error) {
			r.Extra.CloseSSEStream(gosdk.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			return &gosdk.CallToolResult{Content: []gosdk.Content{&gosdk.TextContent{Text: "done"}}}, nil
		})
		return gosdk.NewStreamableHTTPHandler(func(*http.Request) *gosdk.Server { return s },
			&gosdk.StreamableHTTPOptions{EventStore: gosdk.NewMemoryEventStore(nil)})
	})
	l, _ := linkedTo(t, endpointOf(t, p.url))
	caller := newInbox()
	if err := l.forward(request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","arguments":{}}}`, caller)); err != nil {
		t.Fatal(err)
	}
	if got := caller.wait(t); !strings.Contains(got, `"text":"done"`) {
		t.Errorf("the reply is %s", got)
	}
}
