package upstream

import (
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secureOf serves h over TLS, with the certificate in the file that comes back.
func secureOf(t *testing.T, h http.Handler) (url, caFile string) {
	t.Helper()
	secure := httptest.NewUnstartedServer(h)
	secure.EnableHTTP2 = true
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(caFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return secure.URL, caFile
}

func TestHTTPOwnAuthority(t *testing.T) {
	for name, open := range map[string]opening{"streamable": openHTTP, "sse": openSSE} {
		t.Run(name, func(t *testing.T) {
			var h http.Handler = newHTTPPeer(t, nil)
			path := "/mcp"
			if name == "sse" {
				h, path = newSSEPeer(t, nil), "/base/sse"
			}
			url, caFile := secureOf(t, h)
			e := endpointOf(t, url+path)
			err := handshakeErrorBy(t, open, e)
			if !strings.Contains(err.Error(), "certificate") || !strings.Contains(err.Error(), "caFile") {
				t.Errorf("without caFile the error is %q", err)
			}
			e.CAFile = caFile
			transport, sink := greetBy(t, open, e)
			assertLives(t, transport, sink)
			closing := &closingTripper{next: clientOf(transport).Transport}
			clientOf(transport).Transport = closing
			transport.Close()
			if !closing.closed {
				t.Error("the connections of its own outlive the transport")
			}
		})
	}
}

func TestHTTPFallBackWithOwnAuthority(t *testing.T) {
	url, caFile := secureOf(t, newSSEPeer(t, nil))
	e := eitherOf(t, url+"/base/sse")
	e.CAFile = caFile
	transport, sink := greetPeer(t, e)
	assertLives(t, transport, sink)
}

func TestHTTPUnusableCAFile(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "key.pem")
	if err := os.WriteFile(empty, []byte("-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none.pem"): "no such file",
		dir:                            "not a regular file",
		empty:                          "holds no certificate",
	} {
		for _, open := range []opening{openHTTP, openSSE} {
			e := endpointOf(t, "https://127.0.0.1:1/")
			e.CAFile = path
			_, err := open(t.Context(), e)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) ||
				!strings.Contains(err.Error(), "caFile") || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %v, want %q", path, err, want)
			}
		}
	}
}

func clientOf(transport Transport) *http.Client {
	if older, ok := transport.(*eventStream); ok {
		return older.client
	}
	return transport.(*streamable).client
}

// closingTripper notes that idle connections were closed.
type closingTripper struct {
	next   http.RoundTripper
	closed bool
}

func (c *closingTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.next.RoundTrip(r)
}

func (c *closingTripper) CloseIdleConnections() {
	c.closed = true
	c.next.(*http.Transport).CloseIdleConnections()
}

func TestHTTPSharedConnectionsStay(t *testing.T) {
	peer := newHTTPPeer(t, nil)
	e := endpointOf(t, peer.URL)
	closing := &closingTripper{next: e.Client.Transport}
	e.Client.Transport = closing
	transport, sink := greetPeer(t, e)
	assertLives(t, transport, sink)
	transport.Close()
	if closing.closed {
		t.Error("the connections of all servers were closed with one")
	}
}
