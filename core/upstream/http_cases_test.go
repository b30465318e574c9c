package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

func TestC48_ForgottenSessionEndsTheConnection(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
	}{
		"specification":  {404, "Session not found"},
		"typescript":     {404, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`},
		"python":         {404, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}`},
		"code, our id":   {404, `{"jsonrpc":"2.0","id":2,"error":{"code":-32001,"message":"Session not found"}}`},
		"no session 400": {400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`},
		"code 400":       {400, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"who?"},"id":null}`},
		"text 400":       {400, "Invalid session ID"},
	} {
		t.Run(name, func(t *testing.T) {
			var restarted atomic.Bool
			peer := newHTTPPeer(t, func(p *httpPeer) {
				p.first = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
					known := !restarted.Load() || r.Header.Get(mcp.HeaderSessionID) == ""
					if !known {
						writeJSON(w, test.status, test.body)
					}
					return !known
				}
			})
			e := endpointOf(t, peer.URL)
			transport, sink := greetPeer(t, e)
			assertLives(t, transport, sink)
			restarted.Store(true)
			sendCall(t, transport, 2)
			var lost, told *SessionLostError
			if err := sink.failed(t); !errors.As(err, &lost) || lost.Status != test.status {
				t.Fatalf("the call failed with %v", err)
			}
			if err := awaitEnd(t, transport); !errors.As(err, &told) {
				t.Fatalf("the connection ended with %v", err)
			}
			transport.Close()
			before := len(peer.requests(http.MethodPost))

			// A fresh transport, without the old session, works.
			transport, sink = openPeer(t, e)
			sendLine(t, transport, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
			sink.next(t)
			fresh := peer.requests(http.MethodPost)[before:]
			if len(fresh) != 1 || fresh[0].header.Get(mcp.HeaderSessionID) != "" {
				t.Errorf("after the loss came %v", fresh)
			}
		})
	}
}

func TestC48_OtherRefusalsKeepTheSession(t *testing.T) {
	for name, test := range map[string]struct {
		session string
		status  int
		body    string
	}{
		"404 without a session":  {"", 404, "Session not found"},
		"400 about arguments":    {peerSession, 400, "the argument session_id is too long"},
		"own 404":                {peerSession, 404, `{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no such method"}}`},
		"own 400 about sessions": {peerSession, 400, `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"unknown session"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			peer := newHTTPPeer(t, func(p *httpPeer) {
				p.session = test.session
				p.first = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
					refuse := m.MethodName() == string(mcp.MethodToolsCall)
					if refuse {
						writeJSON(w, test.status, test.body)
					}
					return refuse
				}
			})
			transport, sink := greetPeer(t, endpointOf(t, peer.URL))
			sendCall(t, transport, 2)
			if strings.HasPrefix(name, "own") {
				if got := sink.next(t); got != test.body {
					t.Errorf("got %s, want the server's own error", got)
				}
			} else if err := sink.failed(t); !strings.Contains(err.Error(), test.body) {
				t.Errorf("the call failed with %v", err)
			}
			assertLives(t, transport, sink)
		})
	}
}

func TestC50_ServerWithoutAListeningStream(t *testing.T) {
	for name, listen := range map[string]http.HandlerFunc{
		"405":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 405) },
		"404":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Session not found", 404) },
		"406":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 406) },
		"400":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Invalid session ID", 400) },
		"401":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 401) },
		"503":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 503) },
		"HTML":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"JSON":     func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, "{}") },
		"hang-up":  func(w http.ResponseWriter, _ *http.Request) { hangUp(w, true) },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://other.invalid/", 302) },
	} {
		t.Run(name, func(t *testing.T) {
			peer := newHTTPPeer(t, func(p *httpPeer) { p.listen = listen })
			transport, sink := greetPeer(t, endpointOf(t, peer.URL))
			peer.await(t, "GET", func(s httpSeen) bool { return s.verb == http.MethodGet })
			assertLives(t, transport, sink)
			time.Sleep(20 * time.Millisecond) // time to do something about the answer
			assertLives(t, transport, sink)
			// Where a kept connection is hung up net/http itself asks again on others.
			if got := len(peer.requests(http.MethodGet)); got > 2 && name != "hang-up" {
				t.Errorf("%d GET requests", got)
			}
		})
	}
}

// handshakeError performs a handshake that fails and returns why.
func handshakeError(t *testing.T, e Endpoint) error {
	t.Helper()
	return handshakeErrorBy(t, openHTTP, e)
}

func handshakeErrorBy(t *testing.T, open opening, e Endpoint) error {
	t.Helper()
	transport, err := open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	defer transport.Close()
	l := newLink("s", 0)
	l.transport = transport
	transport.Start(l)
	_, err = l.greet(t.Context(), mcp.Implementation{Name: "test", Version: "1"})
	if err == nil {
		t.Fatal("the handshake succeeded")
	}
	return err
}

func TestC76_OneHTTPRequestPerAttempt(t *testing.T) {
	t.Run("503", func(t *testing.T) {
		peer := newHTTPPeer(t, func(p *httpPeer) {
			p.first = func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) bool {
				http.Error(w, "come back later", http.StatusServiceUnavailable)
				return true
			}
		})
		err := handshakeError(t, endpointOf(t, peer.URL))
		if !strings.Contains(err.Error(), "HTTP status 503 (Service Unavailable): come back later") {
			t.Errorf("the attempt failed with %q", err)
		}
		if got := len(peer.requests("")); got != 1 {
			t.Errorf("%d requests, want 1", got)
		}
	})
	t.Run("hang-up", func(t *testing.T) {
		peer := newHTTPPeer(t, func(p *httpPeer) {
			p.first = func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) bool { hangUp(w, false); return true }
		})
		err := handshakeError(t, endpointOf(t, peer.URL))
		if !strings.Contains(err.Error(), "closed the connection without an answer") {
			t.Errorf("the attempt failed with %q", err)
		}
		if got := len(peer.requests("")); got != 1 {
			t.Errorf("%d requests, want 1", got)
		}
	})
	t.Run("refused", func(t *testing.T) {
		noLeak(t)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := listener.Addr().String()
		_ = listener.Close()
		e := endpointOf(t, "http://"+address+"/mcp?token=canary")
		e.Client.Transport = &countingTripper{next: e.Client.Transport}
		err = handshakeError(t, e)
		if want := address + " cannot be reached: "; !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("the attempt failed with %q, want %q", err, want)
		}
		if got := e.Client.Transport.(*countingTripper).count.Load(); got != 1 {
			t.Errorf("%d requests, want 1", got)
		}
	})
}

type countingTripper struct {
	next  http.RoundTripper
	count atomic.Int32
}

func (c *countingTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count.Add(1)
	return c.next.RoundTrip(r)
}

func (c *countingTripper) CloseIdleConnections() { c.next.(*http.Transport).CloseIdleConnections() }

func TestC77_RefusedCredentials(t *testing.T) {
	for _, test := range []struct {
		status          int
		challenge, body string
		hint            string
	}{
		{401, `Bearer realm="x", error="invalid_token", error_description="The access token expired"`, "nope", "The access token expired"},
		{401, `Bearer error="invalid_token"`, "", "invalid_token"},
		{401, "Bearer", `{"error":"log in first"}`, `{"error":"log in first"}`},
		{403, "", "not you", "not you"},
		{403, "", `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Forbidden"}}`, "Forbidden"},
	} {
		t.Run(test.hint, func(t *testing.T) {
			peer := newHTTPPeer(t, func(p *httpPeer) {
				p.first = func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) bool {
					w.Header().Set("WWW-Authenticate", test.challenge)
					writeJSON(w, test.status, test.body)
					return true
				}
			})
			err := handshakeError(t, endpointOf(t, peer.URL))
			var auth *AuthError
			if !errors.As(err, &auth) || auth.Status != test.status || !strings.Contains(auth.Hint, test.hint) {
				t.Errorf("status %d with %q failed with %v, want the hint %q", test.status, test.challenge, err, test.hint)
			}
			if got := len(peer.requests("")); got != 1 {
				t.Errorf("%d requests, want 1", got)
			}
		})
	}
}

func TestC77_RefusedSingleCallIsThatCallsError(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
	}{
		"401":        {401, "not for you"},
		"403":        {403, "not for you"},
		"401 as RPC": {401, `{"jsonrpc":"2.0","id":2,"error":{"code":-32003,"message":"not for you"}}`},
		"403 as RPC": {403, `{"jsonrpc":"2.0","id":2,"error":{"code":-32003,"message":"not for you"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			peer := newHTTPPeer(t, func(p *httpPeer) {
				p.first = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
					refuse := m.MethodName() == string(mcp.MethodToolsCall)
					if refuse {
						writeJSON(w, test.status, test.body)
					}
					return refuse
				}
			})
			transport, sink := greetPeer(t, endpointOf(t, peer.URL))
			sendCall(t, transport, 2)
			var auth *AuthError
			if test.body[0] == '{' {
				if got := sink.next(t); got != test.body {
					t.Errorf("got %s, want the server's own error", got)
				}
			} else if err := sink.failed(t); !errors.As(err, &auth) || auth.Status != test.status || auth.Hint != test.body {
				t.Errorf("the call failed with %v", err)
			}
			assertLives(t, transport, sink)
		})
	}
}

// textLog keeps what is logged, at every level.
type textLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *textLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *textLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The canaries stand in the url's user info and query and in a header; servers
// repeat what they are sent, and fail in every way.
func TestC103_NoSecretInErrorsAndLogs(t *testing.T) {
	const user, query, header = "canary-user", "canary-query", "canary-header"
	echo := func(r *http.Request) string {
		return fmt.Sprintf("you sent %s in %s with %v", r.URL, r.Header.Get(mcp.HeaderSessionID), r.Header)
	}
	for name, answer := range map[string]http.HandlerFunc{
		"status": func(w http.ResponseWriter, r *http.Request) { http.Error(w, echo(r), 500) },
		"auth":   func(w http.ResponseWriter, r *http.Request) { http.Error(w, echo(r), 401) },
		"challenge": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer error_description="`+header+` is old"`)
			w.WriteHeader(401)
		},
		"session": func(w http.ResponseWriter, r *http.Request) { http.Error(w, echo(r), 404) },
		"body":    func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(echo(r))) },
		"event":   func(w http.ResponseWriter, r *http.Request) { startEvents(w)(echo(r)) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://u:"+user+"@other.invalid/?"+query, 307)
		},
		"host": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+query+".invalid/", 307)
		},
		"location": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://other.invalid:"+query+"/")
			w.WriteHeader(307)
		},
		"garbage": func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_, _ = fmt.Fprintf(conn, "%s\r\n\r\n", echo(r))
			_ = conn.Close()
		},
		"hang-up": func(w http.ResponseWriter, _ *http.Request) { hangUp(w, true) },
	} {
		t.Run(name, func(t *testing.T) {
			peer := newHTTPPeer(t, func(p *httpPeer) {
				p.first = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
					late := r.Header.Get(mcp.HeaderSessionID) != "" && m.MethodName() != string(mcp.MethodNotificationInitialized)
					if late {
						answer(w, r)
					}
					return late
				}
			})
			log := &textLog{}
			e := endpointOf(t, strings.Replace(peer.URL, "http://", "http://u:"+user+"@", 1)+"/mcp?token="+query)
			e.Headers = map[string]string{"X-Key": header}
			e.Mask = masker([]string{"dTpjYW5hcnktdXNlcg==", header, query, user})
			e.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			transport, sink := greetPeer(t, e)
			sendLine(t, transport, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
			m, _ := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call"}`))
			texts := ""
			if _, err := transport.Send(m); err != nil { // the notification ended it
				texts = err.Error()
			} else {
				texts = sink.failed(t).Error()
			}
			transport.Close()
			texts += transport.Err().Error() + log.String()
			for _, canary := range []string{"canary", "dTpjYW5hcnk", peerSession} {
				if strings.Contains(texts, canary) {
					t.Errorf("%q is in: %s", canary, texts)
				}
			}
		})
	}
}
