package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/server"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-funnel/core/jsonrpc"
)

// brokenStream answers a request with events, whose stream then ends, or breaks.
func brokenStream(events string, err error) *http.Response {
	resp := respondWith(200, mediaEvents, "")
	resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(events), failing{err}))
	resp.ContentLength = -1
	return resp
}

// failing is a reader that fails, or ends without an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// resuming is a server whose answer to a call breaks off after some events; rest
// answers the n-th request for the rest of it, from 1. It has no listening stream.
func resuming(events string, err error, rest func(after string, n int) (*http.Response, error)) (*scriptedServer, *[]string) {
	var asked []string
	began := time.Now()
	s := &scriptedServer{post: func(_ *http.Request, m jsonrpc.Message) (*http.Response, error) {
		if m.Kind != jsonrpc.Request {
			return respondWith(202, "", ""), nil
		}
		return brokenStream(events, err), nil
	}}
	s.get = func(r *http.Request, _ int) (*http.Response, error) {
		after := r.Header.Get("Last-Event-ID")
		if after == "" {
			return respondWith(405, "", ""), nil
		}
		asked = append(asked, after+" at "+time.Since(began).String())
		return rest(after, len(asked))
	}
	return s, &asked
}

const callAnswer = `{"jsonrpc":"2.0","id":2,"result":"late"}`

func TestHTTPBrokenStreamIsResumed(t *testing.T) {
	const notice = "id: e1\ndata: " + oddNotice + "\n\n"
	answer := func(after string) (*http.Response, error) {
		return brokenStream("id: "+after+"+\ndata: "+callAnswer+"\n\n", nil), nil
	}
	for name, test := range map[string]struct {
		events string
		err    error
		rest   func(after string, n int) (*http.Response, error)
		asked  []string
		notice bool
	}{
		"broken": {notice, io.ErrUnexpectedEOF, func(after string, _ int) (*http.Response, error) { return answer(after) },
			[]string{"e1 at 1s"}, true},
		"ended on purpose": {"id: p0\nretry: 5000\ndata:\n\n", nil, func(after string, _ int) (*http.Response, error) { return answer(after) },
			[]string{"p0 at 5s"}, false},
		"half an event": {notice + "id: e2\ndata: {\"jsonrpc\"", io.ErrUnexpectedEOF,
			func(after string, _ int) (*http.Response, error) { return answer(after) }, []string{"e1 at 1s"}, true},
		"busy and broken": {"id: p0\ndata\n\n", nil, func(after string, n int) (*http.Response, error) {
			switch n {
			case 1:
				return respondWith(503, "", ""), nil
			case 2:
				return nil, io.ErrUnexpectedEOF
			case 3:
				return brokenStream("", io.ErrUnexpectedEOF), nil
			}
			return answer(after)
		}, []string{"p0 at 1s", "p0 at 3s", "p0 at 7s", "p0 at 15s"}, false},
		"nothing for a long time": {"id: p0\ndata\n\n", nil, func(after string, n int) (*http.Response, error) {
			if n <= 2*resumeTries {
				return brokenStream(": nothing yet\n\n", nil), nil
			}
			return answer(after)
		}, []string{"p0 at 1s", "p0 at 2s", "p0 at 3s", "p0 at 4s", "p0 at 5s", "p0 at 6s", "p0 at 7s", "p0 at 8s", "p0 at 9s", "p0 at 10s", "p0 at 11s"}, false},
		"asked again and again": {"id: 0\nretry: 60000\ndata:\n\n", nil, func(after string, n int) (*http.Response, error) {
			if n < 10 { // each time there is something new
				return brokenStream("id: "+string(rune('0'+n))+"\nretry: 600000\ndata:\n\n", nil), nil
			}
			return answer(after)
		}, []string{"0 at 1m0s", "1 at 2m0s", "2 at 3m0s", "3 at 4m0s", "4 at 5m0s", "5 at 6m0s", "6 at 7m0s", "7 at 8m0s", "8 at 9m0s", "9 at 10m0s"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, asked := resuming(test.events, test.err, test.rest)
				transport, sink := scripted(t, s)
				defer transport.Close()
				sendCall(t, transport, 2)
				want := []string{oddNotice, callAnswer}
				if !test.notice {
					want = want[1:]
				}
				for _, want := range want {
					if got := <-sink.messages; string(got.Raw) != want {
						t.Errorf("got %s, want %s", got.Raw, want)
					}
				}
				synctest.Wait()
				if !slices.Equal(*asked, test.asked) || len(sink.failures) > 0 || len(sink.messages) > 0 || transport.Err() != nil {
					t.Errorf("the rest was asked for with %q, want %q; %v", *asked, test.asked, transport.Err())
				}
			})
		})
	}
}

// A call that was sent may have run, whatever becomes of its stream: it never counts as
// one that was not.
func TestHTTPStreamThatIsNotResumedFailsTheCall(t *testing.T) {
	const primed = "id: p0\ndata:\n\n"
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for name, test := range map[string]struct {
		events string
		rest   func() (*http.Response, error)
		tries  int
		want   string
		over   bool
	}{
		"no id":     {"data: " + oddNotice + "\n\n", nil, 0, "ended its stream without an answer", false},
		"405":       {primed, func() (*http.Response, error) { return respondWith(405, "", ""), nil }, 1, "ended its stream without an answer", false},
		"401":       {primed, func() (*http.Response, error) { return respondWith(401, "", ""), nil }, 1, "ended its stream without an answer", false},
		"web page":  {primed, func() (*http.Response, error) { return respondWith(200, "text/html", ""), nil }, 1, "ended its stream", false},
		"busy":      {primed, func() (*http.Response, error) { return respondWith(503, "", ""), nil }, resumeTries, "ended its stream", false},
		"broken":    {primed, func() (*http.Response, error) { return brokenStream(primed, io.ErrUnexpectedEOF), nil }, resumeTries, "ended its stream", false},
		"forgotten": {primed, func() (*http.Response, error) { return respondWith(404, "", ""), nil }, 1, "asking for the rest of it: the server forgot the session", true},
		"refused":   {primed, func() (*http.Response, error) { return nil, refused }, 1, "asking for the rest of it: h:80 cannot be reached", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, asked := resuming(test.events, nil, func(string, int) (*http.Response, error) { return test.rest() })
				transport, sink := scripted(t, s)
				defer transport.Close()
				sendCall(t, transport, 2)
				failed := <-sink.failures
				if failed.id != 2 || unsent(failed.err) || endsConnection(failed.err) != test.over || !strings.Contains(failed.err.Error(), test.want) {
					t.Errorf("request %d failed with %q, want %q", failed.id, failed.err, test.want)
				}
				synctest.Wait()
				var lost *SessionLostError
				if gone := transport.Err(); len(*asked) != test.tries || (errors.As(gone, &lost) || dialFailed(gone)) != test.over {
					t.Errorf("the rest was asked for %d times, want %d; the connection: %v", len(*asked), test.tries, transport.Err())
				}
			})
		})
	}
}

// A proxy cuts silent streams; the call goes on all the same.
func TestHTTPSilentStreamThatIsCutIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := resuming("id: p0\ndata:\n\n", io.ErrUnexpectedEOF, func(_ string, n int) (*http.Response, error) {
			if n > 2*resumeTries {
				return brokenStream("data: "+callAnswer+"\n\n", nil), nil
			}
			reader, writer := io.Pipe()
			time.AfterFunc(time.Minute, func() { _ = writer.CloseWithError(io.ErrUnexpectedEOF) })
			resp := respondWith(200, mediaEvents, "")
			resp.Body, resp.ContentLength = reader, -1
			return resp, nil
		})
		transport, sink := scripted(t, s)
		defer transport.Close()
		sendCall(t, transport, 2)
		select {
		case m := <-sink.messages:
			if string(m.Raw) != callAnswer {
				t.Errorf("the answer is %s", m.Raw)
			}
		case f := <-sink.failures:
			t.Errorf("the call failed: %v", f.err)
		}
	})
}

func TestHTTPBrokenInitializeIsNotResumed(t *testing.T) {
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.first = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
			w.Header().Set("Content-Type", mediaEvents)
			_, _ = io.WriteString(w, "id: 1\ndata:\n\n")
			return m.Kind == jsonrpc.Request
		}
	})
	if err := handshakeError(t, endpointOf(t, peer.URL)); !strings.Contains(err.Error(), "ended its stream without an answer") {
		t.Errorf("the error is %q", err)
	}
	if got := len(peer.requests("")); got != 1 {
		t.Errorf("%d requests, want 1", got)
	}
}

func TestHTTPCancelledCallIsNotResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, asked := resuming("id: p0\nretry: 30000\ndata:\n\n", nil, nil)
		transport, sink := scripted(t, s)
		defer transport.Close()
		sendCall(t, transport, 2)
		synctest.Wait()
		sendLine(t, transport, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(*asked) > 0 || len(sink.failures) > 0 {
			t.Errorf("the rest was asked for with %q", *asked)
		}
	})
}

func TestHTTPListeningStreamGoesOnWhereItEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		s := &scriptedServer{}
		s.get = func(r *http.Request, n int) (*http.Response, error) {
			asked = append(asked, r.Header.Get("Last-Event-ID"))
			switch n {
			case 1:
				return brokenStream("id: a\ndata: "+oddNotice+"\n\n", io.ErrUnexpectedEOF), nil
			case 2:
				return respondWith(503, "", ""), nil
			case 3:
				return brokenStream("id: b\ndata: "+oddNotice+"\n\n", nil), nil
			case 4:
				return respondWith(400, "", ""), nil // it does not know b any more
			}
			resp, _, _ := openStream(r)
			return resp, nil
		}
		transport, sink := scripted(t, s)
		defer transport.Close()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if want := []string{"", "a", "a", "b", ""}; !slices.Equal(asked, want) || len(sink.messages) != 2 {
			t.Errorf("asked for with %q, want %q; %d messages", asked, want, len(sink.messages))
		}
	})
}

// A tool of go-sdk's server ends the stream on purpose; what it says comes on the next.
func TestHTTPStreamOfGoSDKIsResumed(t *testing.T) {
	noLeak(t)
	p := newSDKPeer()
	serveSDK(t, p, func() http.Handler {
		s := goSDKServer(t, p)
		s.AddTool(&gosdk.Tool{Name: "poll", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(ctx context.Context, r *gosdk.CallToolRequest) (*gosdk.CallToolResult, error) {
				r.Extra.CloseSSEStream(gosdk.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
				if err := r.Session.NotifyProgress(ctx, &gosdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1}); err != nil {
					return nil, err
				}
				return &gosdk.CallToolResult{Content: []gosdk.Content{&gosdk.TextContent{Text: "polled"}}}, nil
			})
		return gosdk.NewStreamableHTTPHandler(func(*http.Request) *gosdk.Server { return s },
			&gosdk.StreamableHTTPOptions{EventStore: gosdk.NewMemoryEventStore(nil)})
	})
	l, _ := linkedTo(t, endpointOf(t, p.url))
	caller := newInbox()
	err := l.forward(request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"poll","arguments":{},"_meta":{"progressToken":"tok"}}}`, caller))
	if err != nil {
		t.Fatal(err)
	}
	if got := caller.wait(t); !strings.Contains(got, `"text":"polled"`) || len(caller.progress) != 1 {
		t.Errorf("the reply is %s, with %d notifications before", got, len(caller.progress))
	}
}

// breakingTripper can break the streams that answer a POST.
type breakingTripper struct {
	next http.RoundTripper

	mu      sync.Mutex
	streams []io.Closer
}

func (b *breakingTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.streams = append(b.streams, resp.Body)
	}
	return resp, err
}

func (b *breakingTripper) CloseIdleConnections() { b.next.(*http.Transport).CloseIdleConnections() }

func (b *breakingTripper) snap() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, stream := range b.streams {
		_ = stream.Close()
	}
}

func TestHTTPStreamOfMCPGoIsResumed(t *testing.T) {
	noLeak(t)
	p := mcpGoPeer(t, server.WithEventStore(server.NewInMemoryEventStore()))
	e := endpointOf(t, p.url)
	breaking := &breakingTripper{next: e.Client.Transport}
	e.Client.Transport = breaking
	l, _ := linkedTo(t, e)
	caller := newInbox()
	err := l.forward(request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","arguments":{},"_meta":{"progressToken":"tok"}}}`, caller))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-caller.progress:
	case <-time.After(peerWait):
		t.Fatal("there is no progress")
	}
	breaking.snap()
	close(p.arrived)
	if got := caller.wait(t); !strings.Contains(got, `"text":"done"`) {
		t.Errorf("the reply is %s", got)
	}
}
