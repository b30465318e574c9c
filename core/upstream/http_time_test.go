package upstream

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// scriptedServer is an http.RoundTripper for tests in a bubble, where sockets
// cannot be: it greets by itself and leaves the rest to functions.
type scriptedServer struct {
	// post answers requests other than initialize, and notifications.
	post func(r *http.Request, m jsonrpc.Message) (*http.Response, error)
	// get answers the n-th attempt to listen, from 1.
	get func(r *http.Request, n int) (*http.Response, error)
	// end answers DELETE.
	end func(r *http.Request) (*http.Response, error)

	mu   sync.Mutex
	gets []time.Time
}

func (s *scriptedServer) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodDelete:
		return s.end(r)
	case http.MethodGet:
		s.mu.Lock()
		s.gets = append(s.gets, time.Now())
		n := len(s.gets)
		s.mu.Unlock()
		return s.get(r, n)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m, err := jsonrpc.Parse(body)
	switch {
	case err != nil:
		return nil, err
	case m.MethodName() == string(mcp.MethodInitialize):
		resp := respondWith(200, mediaJSON, resultFor(m, "{}"))
		resp.Header.Set(mcp.HeaderSessionID, peerSession)
		return resp, nil
	case m.Kind == jsonrpc.Request || s.post != nil:
		return s.post(r, m)
	}
	return respondWith(202, "", ""), nil
}

// pauses are the times between the attempts to listen.
func (s *scriptedServer) pauses() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []time.Duration
	for i := 1; i < len(s.gets); i++ {
		list = append(list, s.gets[i].Sub(s.gets[i-1]))
	}
	return list
}

func respondWith(status int, media, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {media}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// openStream is an open answer; write sends text on it. It ends with its request.
func openStream(r *http.Request) (resp *http.Response, write func(string), end func()) {
	reader, writer := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = writer.CloseWithError(context.Canceled) })
	resp = respondWith(200, mediaEvents, "")
	resp.Body, resp.ContentLength = reader, -1
	return resp, func(text string) { _, _ = io.WriteString(writer, text) }, func() { _ = writer.Close() }
}

func noStream(*http.Request, int) (*http.Response, error) { return respondWith(405, "", ""), nil }

// scripted opens and greets a transport to s; its owner closes it in the bubble.
func scripted(t *testing.T, s *scriptedServer) (Transport, *testSink) {
	t.Helper()
	if s.get == nil {
		s.get = noStream
	}
	if s.end == nil {
		s.end = func(*http.Request) (*http.Response, error) { return respondWith(204, "", ""), nil }
	}
	e := Endpoint{
		Server: "s", URL: "http://h/mcp", Client: &http.Client{Transport: s, CheckRedirect: sameOrigin},
		Mask: func(text string) string { return text }, Logger: slog.New(slog.DiscardHandler),
	}
	return greetPeer(t, e)
}

func TestC52_LateAnswerAndIdleStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listening := make(chan func(string), 1)
		s := &scriptedServer{}
		s.get = func(r *http.Request, _ int) (*http.Response, error) {
			resp, write, _ := openStream(r)
			listening <- write
			return resp, nil
		}
		s.post = func(r *http.Request, m jsonrpc.Message) (*http.Response, error) {
			if m.Kind != jsonrpc.Request {
				return respondWith(202, "", ""), nil
			}
			resp, write, end := openStream(r)
			go func() {
				time.Sleep(45 * time.Second)
				write("data: " + resultFor(m, "{}") + "\n\n")
				end()
			}()
			return resp, nil
		}
		transport, sink := scripted(t, s)
		defer transport.Close()
		began := time.Now()
		sendCall(t, transport, 2)
		got := <-sink.messages
		if took := time.Since(began); got.Kind != jsonrpc.Response || took != 45*time.Second {
			t.Errorf("%s came after %s", got.Raw, took)
		}
		write := <-listening
		time.Sleep(6 * time.Minute)
		write("data: " + oddNotice + "\n\n")
		if got := <-sink.messages; string(got.Raw) != oddNotice {
			t.Errorf("after the silence came %s", got.Raw)
		}
		if pauses := s.pauses(); len(pauses) > 0 {
			t.Errorf("the idle stream was opened again, after %s", pauses)
		}
	})
}

// A person takes minutes for an answer, and the call as long.
func TestC52_PersonTakesMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan string, 1)
		s := &scriptedServer{post: func(r *http.Request, m jsonrpc.Message) (*http.Response, error) {
			switch m.Kind {
			case jsonrpc.Request:
				resp, write, end := openStream(r)
				go func() {
					write("data: " + personAsked + "\n\n")
					if got := <-answered; got != personSaid {
						t.Errorf("the server got %s", got)
					}
					write("data: " + resultFor(m, `"thanks"`) + "\n\n")
					end()
				}()
				return resp, nil
			case jsonrpc.Response:
				answered <- string(m.Raw)
			default: // initialized
			}
			return respondWith(202, "", ""), nil
		}}
		transport, _ := scripted(t, s)
		defer transport.Close()
		l := newLink("s", 0)
		l.transport, l.lastID = transport, 1
		transport.(*streamable).sink = l // whose part the test had till now
		caller := &sseAsker{newInbox(), 10 * time.Minute}
		began := time.Now()
		if err := l.forward(request(t, callX, caller)); err != nil {
			t.Fatal(err)
		}
		if reply := <-caller.replies; reply != `{"jsonrpc":"2.0","id":1,"result":"thanks"}` || time.Since(began) != 10*time.Minute {
			t.Errorf("after %s came %s", time.Since(began), reply)
		}
	})
}

func TestHTTPListeningStreamIsOpenedAgainWithBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{}
		s.get = func(r *http.Request, n int) (*http.Response, error) {
			switch n {
			case 2, 4: // busy; not there for a moment
				return respondWith(503, "", ""), nil
			case 3:
				return nil, io.ErrUnexpectedEOF
			}
			resp, _, end := openStream(r)
			if n == 10 {
				go func() { time.Sleep(2 * time.Minute); end() }()
			} else {
				end()
			}
			return resp, nil
		}
		transport, _ := scripted(t, s)
		defer transport.Close()
		time.Sleep(8 * time.Minute)
		var want []time.Duration
		for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60, 60, 121, 2, 4, 8, 16, 32} {
			want = append(want, time.Duration(seconds)*time.Second)
		}
		got := s.pauses()
		if diff := cmp.Diff(want, got[:min(len(got), len(want))]); diff != "" {
			t.Errorf("pauses (-want +got):\n%s", diff)
		}
		time.Sleep(24 * time.Hour)
		if got := s.pauses(); got[len(got)-1] != listenLastPause {
			t.Errorf("after a day the pause is %s, want %s", got[len(got)-1], listenLastPause)
		}
	})
}

func TestHTTPListeningStreamHeedsRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{}
		s.get = func(r *http.Request, _ int) (*http.Response, error) {
			resp, write, end := openStream(r)
			go func() {
				write("retry: 5000\n\n")
				end()
			}()
			return resp, nil
		}
		transport, _ := scripted(t, s)
		defer transport.Close()
		time.Sleep(20 * time.Second)
		want := []time.Duration{5 * time.Second, 5 * time.Second, 5 * time.Second}
		if diff := cmp.Diff(want, s.pauses()); diff != "" {
			t.Errorf("pauses (-want +got):\n%s", diff)
		}
	})
}

// What the second attempt to listen says about the connection.
func TestHTTPListeningStreamThatDoesNotComeBack(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	var lost *SessionLostError
	for name, test := range map[string]struct {
		second func() (*http.Response, error)
		over   func(error) bool // nil: the connection lives
	}{
		"refused":   {func() (*http.Response, error) { return nil, refused }, dialFailed},
		"forgotten": {func() (*http.Response, error) { return respondWith(404, "", ""), nil }, func(err error) bool { return errors.As(err, &lost) }},
		"taken":     {func() (*http.Response, error) { return respondWith(405, "", ""), nil }, nil},
		"web page":  {func() (*http.Response, error) { return respondWith(200, "text/html", "<html>"), nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{}
				s.get = func(r *http.Request, n int) (*http.Response, error) {
					if n > 1 {
						return test.second()
					}
					resp, _, end := openStream(r)
					end()
					return resp, nil
				}
				transport, _ := scripted(t, s)
				defer transport.Close()
				time.Sleep(10 * time.Minute)
				if got := len(s.pauses()); got != 1 {
					t.Errorf("opened again %d times, want once", got)
				}
				switch err := transport.Err(); {
				case test.over == nil && err != nil:
					t.Errorf("the connection ended with %v", err)
				case test.over != nil && (err == nil || !test.over(err)):
					t.Errorf("the connection is over by %v", err)
				}
			})
		})
	}
}

func TestHTTPFirstListeningRefusedEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{get: func(*http.Request, int) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}}
		transport, _ := scripted(t, s)
		defer transport.Close()
		<-transport.Done()
		if err := transport.Err(); !dialFailed(err) {
			t.Errorf("the connection ended with %v", err)
		}
	})
}

func TestHTTPStreamAfterItsAnswerIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan time.Time, 1)
		s := &scriptedServer{post: func(r *http.Request, m jsonrpc.Message) (*http.Response, error) {
			if m.Kind != jsonrpc.Request {
				return respondWith(202, "", ""), nil
			}
			resp, write, _ := openStream(r)
			context.AfterFunc(r.Context(), func() { left <- time.Now() })
			go write("data: " + resultFor(m, "{}") + "\n\n")
			return resp, nil
		}}
		transport, sink := scripted(t, s)
		defer transport.Close()
		sendCall(t, transport, 2)
		answered := <-sink.messages
		began := time.Now()
		if took := (<-left).Sub(began); answered.Kind != jsonrpc.Response || took != trailGrace {
			t.Errorf("the stream was left after %s, want %s", took, trailGrace)
		}
		if len(sink.failures) > 0 {
			t.Errorf("an answered request failed: %v", <-sink.failures)
		}
	})
}

// A server that does not take the cancellation does not keep its stream open.
func TestHTTPCancelThatIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan time.Time, 1)
		s := &scriptedServer{post: func(r *http.Request, m jsonrpc.Message) (*http.Response, error) {
			switch m.MethodName() {
			case string(mcp.MethodToolsCall):
				resp, _, _ := openStream(r)
				context.AfterFunc(r.Context(), func() { left <- time.Now() })
				return resp, nil
			case string(mcp.MethodNotificationCancelled):
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return respondWith(202, "", ""), nil
		}}
		transport, sink := scripted(t, s)
		defer transport.Close()
		sendCall(t, transport, 2)
		synctest.Wait()
		began := time.Now()
		sendLine(t, transport, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		if took := (<-left).Sub(began); took != ackTimeout {
			t.Errorf("the stream was left after %s, want %s", took, ackTimeout)
		}
		synctest.Wait()
		if len(sink.failures) > 0 || transport.Err() != nil {
			t.Errorf("the request failed, or the connection ended: %v", transport.Err())
		}
	})
}

func TestHTTPCloseDoesNotWaitForDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{end: func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}}
		transport, _ := scripted(t, s)
		began := time.Now()
		transport.Close()
		if took := time.Since(began); took != deleteTimeout {
			t.Errorf("Close took %s, want %s", took, deleteTimeout)
		}
	})
}
