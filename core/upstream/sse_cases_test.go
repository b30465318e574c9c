package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

func TestC77_SSERefusedCredentials(t *testing.T) {
	for _, status := range []int{401, 403} {
		for _, verb := range []string{http.MethodGet, http.MethodPost} {
			t.Run(fmt.Sprint(verb, status), func(t *testing.T) {
				refuse := func(w http.ResponseWriter) bool {
					w.Header().Set("WWW-Authenticate", `Bearer error_description="The access token expired"`)
					w.WriteHeader(status)
					return true
				}
				peer := newSSEPeer(t, func(p *ssePeer) {
					if verb == http.MethodGet {
						p.get = func(w http.ResponseWriter, _ *http.Request) bool { return refuse(w) }
					}
					p.post = func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) bool { return refuse(w) }
				})
				err := handshakeErrorBy(t, openSSE, endpointOf(t, peer.sse()))
				var auth *AuthError
				if !errors.As(err, &auth) || auth.Status != status || auth.Hint != "The access token expired" {
					t.Errorf("the handshake failed with %v", err)
				}
			})
		}
	}
}

func TestSSERetryAfterIsKept(t *testing.T) {
	peer := newSSEPeer(t, func(p *ssePeer) {
		p.get = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "7")
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return true
		}
	})
	var refused *statusError
	if err := handshakeErrorBy(t, openSSE, endpointOf(t, peer.sse())); !errors.As(err, &refused) || refused.retryAfter != 7*time.Second {
		t.Errorf("the handshake failed with %v", err)
	}
}

func TestSSERefusedPosts(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		over   bool
	}{
		"500":           {500, "bad day", false},
		"401":           {401, "not for you", false},
		"own error":     {400, `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"bad"}}`, false},
		"gone":          {404, "Could not find session", true},
		"mcp-go's gone": {400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"Invalid session ID"}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			peer := newSSEPeer(t, func(p *ssePeer) {
				p.post = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
					refuse := m.MethodName() == string(mcp.MethodToolsCall)
					if refuse {
						writeJSON(w, test.status, test.body)
					}
					return refuse
				}
			})
			transport, sink := greetBy(t, openSSE, endpointOf(t, peer.sse()))
			sendCall(t, transport, 2)
			if name == "own error" {
				if got := sink.next(t); got != test.body {
					t.Errorf("got %s", got)
				}
			} else if f := sink.failure(t); f.id != 2 || unsent(f.err) != test.over {
				t.Errorf("request %d failed with %v", f.id, f.err)
			}
			if !test.over {
				assertLives(t, transport, sink)
				return
			}
			var lost *SessionLostError
			if err := awaitEnd(t, transport); !errors.As(err, &lost) {
				t.Errorf("the connection ended with %v", err)
			}
		})
	}
}

// The session is part of the address for messages, and servers repeat what they get.
func TestC103_NoSecretOfSSEInErrorsAndLogs(t *testing.T) {
	log := &textLog{}
	peer := newSSEPeer(t, func(p *ssePeer) {
		p.post = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
			refuse := m.MethodName() != string(mcp.MethodInitialize) && m.MethodName() != string(mcp.MethodNotificationInitialized)
			if refuse {
				http.Error(w, fmt.Sprintf("you sent %s with %v", r.URL, r.Header), 500)
			}
			return refuse
		}
	})
	e := endpointOf(t, strings.Replace(peer.sse(), "http://", "http://u:canary-user@", 1)+"?token=canary-query")
	e.Headers = map[string]string{"X-Key": "canary-header"}
	e.Mask = masker([]string{"dTpjYW5hcnktdXNlcg==", "canary-header", "canary-query", "canary-user"})
	e.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	transport, sink := greetBy(t, openSSE, e)
	sendLine(t, transport, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	sendCall(t, transport, 2)
	text := sink.failed(t).Error()
	peer.await(t, "notification", func(s httpSeen) bool { return s.method == "notifications/roots/list_changed" })
	transport.Close()
	text += log.String()
	for _, canary := range []string{"canary", "dTpjYW5hcnk", sseSecret} {
		if strings.Contains(text, canary) {
			t.Errorf("%q is in: %s", canary, text)
		}
	}
}

// Messages never follow a redirect to another origin; the stream may move on its own.
func TestSSERedirects(t *testing.T) {
	other := newHTTPPeer(t, nil)
	peer := newSSEPeer(t, func(p *ssePeer) {
		p.endpoint = "messages/?session_id=" + sseSecret
		p.get = func(w http.ResponseWriter, r *http.Request) bool {
			moved := r.URL.Path == "/old"
			if moved {
				http.Redirect(w, r, "/base/sse", http.StatusMovedPermanently)
			}
			return moved
		}
		p.post = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
			moves := m.MethodName() == string(mcp.MethodToolsCall)
			if moves {
				http.Redirect(w, r, other.URL+"/?canary", http.StatusTemporaryRedirect)
			}
			return moves
		}
	})
	e := endpointOf(t, peer.URL+"/old")
	e.Headers = map[string]string{"X-Api-Key": "canary"}
	transport, sink := greetBy(t, openSSE, e)
	sendCall(t, transport, 2)
	if err := sink.failed(t); !strings.Contains(err.Error(), other.URL+",") || strings.Contains(err.Error(), "canary") {
		t.Errorf("the call failed with %v", err)
	}
	assertLives(t, transport, sink)
	if got := other.requests(""); len(got) > 0 {
		t.Errorf("the other server got %v", got)
	}
}
