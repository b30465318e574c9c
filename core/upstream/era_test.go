package upstream

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"mcp-funnel/core/jsonrpc"
)

// How servers without the handshake refuse it, and what only looks like that.
func TestServerThatSpeaksOnlyNewerVersions(t *testing.T) {
	const only, probably = "the server speaks only MCP 2026-07-28, which the funnel does not yet", "it probably speaks only MCP 2026-07-28 or later, which the funnel does not yet"
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"unsupported":         {200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}}`, only},
		"with its status":     {400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}}`, only},
		"without our id":      {400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28"]}}}`, only},
		"nameless":            {200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m"}}`, probably},
		"no id, 200":          {200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28"]}}}`, only},
		"header mismatch":     {400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"missing Mcp-Method"}}`, probably},
		"unknown method":      {200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`, probably},
		"unknown, 404":        {404, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`, probably},
		"invalid":             {400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"version 2025-11-25 is not one of: 2026-07-28, 2027-01-15"}}`, "speaks only MCP 2026-07-28, 2027-01-15, which"},
		"in words":            {400, "Unsupported protocol version: 2025-11-25 (supported: 2026-07-28)", only},
		"invalid, no version": {200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"go away"}}`, "initialize: go away (code -32600)"},
		"speaks old as well":  {200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"odd","data":{"supported":["2026-07-28","2025-06-18"]}}}`, "initialize: odd (code -32022)"},
		"other 400":           {400, "made on 2026-09-09", "HTTP status 400 (Bad Request): made on 2026-09-09"},
		"other 404":           {404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"nothing here"}}`, "HTTP status 404"},
		"error of no one":     {400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"bad"}}`, "HTTP status 400"},
		"old version":         {400, "bad version 2024-11-05", "HTTP status 400"},
	} {
		t.Run(name, func(t *testing.T) {
			peer := newHTTPPeer(t, func(p *httpPeer) {
				p.first = func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) bool {
					writeJSON(w, test.status, test.body)
					return true
				}
			})
			err := handshakeError(t, endpointOf(t, peer.URL))
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %q, want %q", err, test.want)
			}
			var newest *newerError
			if errors.As(err, &newest) != strings.Contains(test.want, "speaks only MCP") && name != "no id, 200" {
				t.Errorf("the error is a %T", err)
			}
		})
	}
}

// A process refuses it in the same ways.
func TestProcessThatSpeaksOnlyNewerVersions(t *testing.T) {
	m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"unknown method \"initialize\"; this server supports 2026-07-28"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := newerOnly(m, errorOf(m)); got.Error() != "the server speaks only MCP 2026-07-28, which the funnel does not yet" {
		t.Errorf("the error is %q", got)
	}
	other := errors.New("other")
	if got := newerOnly(jsonrpc.Message{}, other); got != other { //nolint:errorlint // the very same
		t.Errorf("the error is %q", got)
	}
}

// FuzzNewerFromText holds that no body makes it panic, and that what it finds are versions.
func FuzzNewerFromText(f *testing.F) {
	for _, seed := range []string{
		"version 2026-07-28", `{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28",1,null]}}}`,
		`{"jsonrpc":"2.0","id":1,"error":null}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601}}`, `{"jsonrpc":"2.0","id":1,"error":{"data":{"supported":{}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		err := newerFromText(body)
		if err == nil {
			return
		}
		for _, version := range err.(*newerError).versions { //nolint:errorlint // nothing wraps it
			if !versionPattern.MatchString(version) || speaks(version) {
				t.Errorf("%q is no newer version", version)
			}
		}
	})
}
