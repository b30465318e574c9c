package endpoint

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestC137_TokenIsMadeForItsOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "http-token")
	made, err := loadToken(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || len(strings.TrimSpace(string(text))) != 43 {
		t.Errorf("%d characters, %v", len(text), err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	again, err := loadToken(path)
	if err != nil || again != made || again != digestOf(strings.TrimSpace(string(text))) {
		t.Errorf("read again it is another one, %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if other, err := loadToken(path); err != nil || other == made {
		t.Errorf("a second token is the same, %v", err)
	}
}

func TestTokenThatCannotBeUsedIsToldAndKept(t *testing.T) {
	const own = "my-own-token-of-long-ago"
	for name, tc := range map[string]struct {
		text string
		mode os.FileMode
		good bool
	}{
		"own":       {own + "\n", 0o600, true},
		"read-only": {own, 0o400, true},
		"open":      {own, 0o644, false},
		"short":     {"secret", 0o600, false},
		"empty":     {"", 0o600, false},
		"odd":       {"with a / and a blank.", 0o600, false},
	} {
		path := filepath.Join(t.TempDir(), "http-token")
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, tc.mode); err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS == "windows" && name == "open" {
			continue // modes mean nothing there
		}
		_, err := loadToken(path)
		var bad *TokenError
		if tc.good != (err == nil) || err != nil && (!errors.As(err, &bad) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: %v", name, err)
		}
		if tc.text != "" && err != nil && strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: the error shows it: %v", name, err)
		}
		if text, _ := os.ReadFile(path); string(text) != tc.text {
			t.Errorf("%s: the file is now %q", name, text)
		}
	}
}

func TestTokenIsNoLink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "http-token")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), path); err != nil {
		t.Skip(err)
	}
	if _, err := loadToken(path); err == nil || !strings.Contains(err.Error(), "regular") {
		t.Errorf("%v", err)
	}
}

// What the path of a request holds is the token whole, or nothing.
func FuzzCutPath(f *testing.F) {
	for _, p := range []string{"/mcp", "/mcp/", "/mcp/token", "/mcp//", "/mcpx", "", "/", "/mcp/a/b"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		token, ours := cutPath(p)
		if ours && p != "/mcp" && p != "/mcp/"+token || !ours && token != "" && !strings.Contains(token, "/") {
			t.Errorf("%q: %q, %v", p, token, ours)
		}
	})
}

func FuzzEventID(f *testing.F) {
	for _, id := range []string{"get-1-0", "post-12-345", "post-01-1", "get-1--1", "-", "post-99999999999999999999-1"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if id, ok := parseEventID(text); ok && id.String() != text {
			t.Errorf("%q is read as %v", text, id)
		}
	})
}

// No header a stranger can send makes it pass as a local one.
func FuzzGuard(f *testing.F) {
	f.Add("localhost:7877", "http://localhost", "Bearer x", "/mcp/x")
	f.Add("[::1]", "null", "", "/mcp")
	f.Add("evil.example", "https://[::1]@evil.example", "bearer  ", "//mcp")
	g := guard{token: digestOf("the-token-of-this-test")}
	f.Fuzz(func(t *testing.T, host, origin, authorization, path string) {
		r := &http.Request{Host: host, Header: http.Header{"Origin": {origin}, "Authorization": {authorization}}, URL: &url.URL{Path: path}}
		status, why := g.check(r)
		passes := strings.Contains(authorization, "the-token-of-this-test") || strings.Contains(path, "the-token-of-this-test")
		if status == 0 && !passes || status != 0 && why == "" {
			t.Errorf("%q %q %q %q: %d %s", host, origin, authorization, path, status, why)
		}
		if g.allowsHost(host) && strings.Contains(host, "example") || allowsOrigins([]string{origin}) && strings.HasSuffix(origin, "example") {
			t.Errorf("%q %q pass", host, origin)
		}
	})
}

func FuzzAccepts(f *testing.F) {
	f.Add("application/json, text/event-stream")
	f.Add("*/*;q=0, text/*;q=0.1;x")
	f.Fuzz(func(t *testing.T, value string) {
		if accepts([]string{value}, typeStream) && !strings.Contains(value, "*") && !strings.Contains(strings.ToLower(value), typeStream) {
			t.Errorf("%q", value)
		}
	})
}

// A body is one line afterwards, and means the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte("{\n\"jsonrpc\":\"2.0\",\r\n\"id\":1,\"method\":\"x\"}\n"))
	f.Add([]byte("[{}]"))
	f.Add([]byte("{\"id\":1,\"method\":\"a\nb\"}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := parse(body)
		if err == nil && strings.ContainsAny(string(m.Raw), "\r\n") {
			t.Errorf("%q has line breaks", m.Raw)
		}
	})
}
