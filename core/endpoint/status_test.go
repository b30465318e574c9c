package endpoint

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-funnel/core/status"
)

const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`

// Every status there is, and what leads to it.
func TestStatusOfEveryRefusal(t *testing.T) {
	p := newWorld(t, func(l *limits) { l.body = 1 << 10 }).attach()
	session := header{"Mcp-Session-Id", p.key}
	for name, tc := range map[string]struct {
		method, body string
		headers      []header
		status       int
		// text is part of what is said.
		text string
	}{
		"a request":             {"POST", ping, []header{session}, 200, `{"jsonrpc":"2.0","id":7,"result":{}}`},
		"curl's Accept":         {"POST", ping, []header{session, {"Accept", "*/*"}}, 200, `"result":{}`},
		"no version":            {"POST", ping, []header{session, {"Mcp-Protocol-Version", ""}}, 200, `"result":{}`},
		"a notification":        {"POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, []header{session}, 202, ""},
		"a stray response":      {"POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, []header{session}, 202, ""},
		"an unknown method":     {"POST", `{"jsonrpc":"2.0","id":7,"method":"server/discover"}`, []header{session}, 200, "-32601"},
		"no JSON":               {"POST", `{"jsonrpc":`, []header{session}, 400, "-32700"},
		"a raw line break":      {"POST", "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"pi\nng\"}", []header{session}, 400, "-32700"},
		"nothing":               {"POST", ``, []header{session}, 400, "-32700"},
		"a batch":               {"POST", `[` + ping + `]`, []header{session}, 400, "-32600"},
		"no message":            {"POST", `{"id":7}`, []header{session}, 400, "-32600"},
		"no session":            {"POST", ping, nil, 400, `"id":7,"error":{"code":-32600`},
		"discover":              {"POST", `{"jsonrpc":"2.0","id":7,"method":"server/discover"}`, []header{{"Mcp-Protocol-Version", "2026-07-28"}}, 400, "-32601"},
		"no session to tell":    {"POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 400, "Mcp-Session-Id"},
		"an unknown session":    {"POST", ping, []header{{"Mcp-Session-Id", "x"}}, 404, "begin a new one"},
		"a stale initialize":    {"POST", initialize, []header{{"Mcp-Session-Id", "x"}}, 404, "begin a new one"},
		"an unknown version":    {"POST", ping, []header{session, {"Mcp-Protocol-Version", "1999-01-01"}}, 400, "Version"},
		"a future version":      {"POST", ping, []header{session, {"Mcp-Protocol-Version", "2026-07-28"}}, 400, "Version"},
		"no type":               {"POST", ping, []header{session, {"Content-Type", ""}}, 415, "application/json"},
		"another type":          {"POST", ping, []header{session, {"Content-Type", "text/plain"}}, 415, "application/json"},
		"only JSON accepted":    {"POST", ping, []header{session, {"Accept", "application/json"}}, 406, "accept both"},
		"only events accepted":  {"POST", ping, []header{session, {"Accept", "text/event-stream"}}, 406, "accept both"},
		"events refused":        {"POST", ping, []header{session, {"Accept", "application/json, text/event-stream;q=0"}}, 406, "accept both"},
		"a body too long":       {"POST", `{"x":"` + strings.Repeat("x", 1<<10) + `"}`, []header{session}, 413, "too long"},
		"listening to JSON":     {"GET", "", []header{session, {"Accept", "application/json"}}, 406, "text/event-stream"},
		"listening to nothing":  {"GET", "", nil, 400, "Mcp-Session-Id"},
		"listening, unknown":    {"GET", "", []header{{"Mcp-Session-Id", "x"}}, 404, "begin a new one"},
		"listening, version":    {"GET", "", []header{session, {"Mcp-Protocol-Version", "x"}}, 400, "Version"},
		"a foreign event id":    {"GET", "", []header{session, {"Last-Event-Id", "1234"}}, 400, "Last-Event-Id"},
		"a stream that is over": {"GET", "", []header{session, {"Last-Event-Id", "post-9999-1"}}, 204, ""},
		"ending nothing":        {"DELETE", "", nil, 400, "Mcp-Session-Id"},
		"ending an unknown one": {"DELETE", "", []header{{"Mcp-Session-Id", "x"}}, 404, "begin a new one"},
		"PUT":                   {"PUT", ping, []header{session}, 405, "POST"},
		"OPTIONS":               {"OPTIONS", "", []header{session}, 405, "POST"},
		"HEAD":                  {"HEAD", "", []header{session}, 405, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := p.do(t.Context(), tc.method, p.url, tc.body, append([]header{{"Mcp-Protocol-Version", "2025-11-25"}}, tc.headers...)...)
			got := text(t, r)
			if r.StatusCode != tc.status || !strings.Contains(got, tc.text) || tc.text == "" && got != "" {
				t.Errorf("%d %s, want %d with %q", r.StatusCode, got, tc.status, tc.text)
			}
			if allow := r.Header.Get("Allow"); (allow == "GET, POST, DELETE") != (tc.status == 405) {
				t.Errorf("Allow: %q", allow)
			}
		})
	}
}

func TestSameIDTwiceAtATime(t *testing.T) {
	p := newWorld(t).attach()
	first := p.later(call("1"))
	q := p.next()
	if r := p.post(call("1")); r.StatusCode != 400 || !strings.Contains(text(t, r), "still running") {
		t.Errorf("the second: %s", r.Status)
	}
	reply(q, `{"first":true}`)
	if got := text(t, <-first); !strings.Contains(got, "first") {
		t.Errorf("the first got %s", got)
	}
}

// C136: a web page cannot drive tools, neither directly nor by DNS rebinding; and
// whoever does not know the token neither.
func TestC136_StrangersAreRefused(t *testing.T) {
	w := newWorld(t)
	path := header{"Authorization", ""} // the token is in the path then
	for name, tc := range map[string]struct {
		url     string
		headers []header
		status  int
	}{
		"token in the header":       {"", nil, 200},
		"in lower case":             {"", []header{{"Authorization", "bearer " + w.token}}, 200},
		"token in the path":         {"/" + w.token, []header{path}, 200},
		"both, one wrong":           {"/" + w.token, []header{{"Authorization", "Bearer x"}}, 200},
		"none":                      {"", []header{path}, 401},
		"empty":                     {"/", []header{path}, 401},
		"wrong":                     {"", []header{{"Authorization", "Bearer " + w.token + "x"}}, 401},
		"of another scheme":         {"", []header{{"Authorization", "Basic " + w.token}}, 401},
		"wrong in the path":         {"/x" + w.token, []header{path}, 401},
		"token with more behind it": {"/" + w.token + "/x", nil, 404},
		"another path":              {"x", nil, 404},
		"an encoded slash":          {"%2F" + w.token, []header{path}, 200},
		"localhost":                 {"", []header{{"Host", "localhost:1234"}}, 200},
		"localhost at a tunnel":     {"", []header{{"Host", "LOCALHOST."}}, 200},
		"::1":                       {"", []header{{"Host", "[::1]:7877"}}, 200},
		"127.9.9.9":                 {"", []header{{"Host", "127.9.9.9"}}, 200},
		"a foreign Host":            {"", []header{{"Host", "evil.example"}}, 403},
		"a foreign Host and port":   {"", []header{{"Host", "evil.example:7877"}}, 403},
		"a name that looks local":   {"", []header{{"Host", "127.0.0.1.evil.example"}}, 403},
		"localhost as a subdomain":  {"", []header{{"Host", "localhost.evil.example"}}, 403},
		"another machine's address": {"", []header{{"Host", "192.168.1.7:7877"}}, 403},
		"a local page":              {"", []header{{"Origin", "http://localhost:6274"}}, 200},
		"a local page at ::1":       {"", []header{{"Origin", "https://[::1]"}}, 200},
		"a foreign page":            {"", []header{{"Origin", "https://evil.example"}}, 403},
		"a page of nowhere":         {"", []header{{"Origin", "null"}}, 403},
		"a file":                    {"", []header{{"Origin", "file://localhost"}}, 403},
		"a page with user info":     {"", []header{{"Origin", "http://localhost@evil.example"}}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.do(t.Context(), http.MethodPost, w.url+tc.url, initialize, tc.headers...)
			body := text(t, r)
			if r.StatusCode != tc.status {
				t.Errorf("%s %s, want %d", r.Status, body, tc.status)
			}
			if (r.StatusCode == 401) != (r.Header.Get("WWW-Authenticate") == "Bearer") {
				t.Errorf("WWW-Authenticate: %q", r.Header.Get("WWW-Authenticate"))
			}
			if tc.status != 200 && r.Header.Get("Mcp-Session-Id") != "" {
				t.Error("a session was begun")
			}
			if strings.Contains(body, w.token) {
				t.Errorf("the token is in the answer: %s", body)
			}
		})
	}
}

// With allowRemote others may come by an address or by the machine's own name.
func TestHostsOfARemoteEndpoint(t *testing.T) {
	g := guard{remote: true, names: []string{"desk", "desk.local"}}
	for host, want := range map[string]bool{
		"192.168.1.7:7877": true, "[fe80::1]:7877": true, "desk:7877": true, "Desk.local": true, "localhost": true,
		"evil.example": false, "": false, "desk.evil.example": false, ":7877": false,
	} {
		if got := g.allowsHost(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

func TestInvariant8_TokenIsInNoLog(t *testing.T) {
	w := newWorld(t)
	p := w.attach()
	_ = text(t, w.do(t.Context(), http.MethodPost, w.url+"/"+w.token, ping, header{"Authorization", ""}))
	_ = text(t, w.do(t.Context(), http.MethodGet, w.url+"/"+w.token+"/x", ""))
	// What net/http itself complains of.
	c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write([]byte("GET /mcp/" + w.token + " HTTP/9.9\r\n\r\n"))
	_ = c.Close()
	w.stop()
	got := w.log.String()
	if !strings.Contains(got, "the HTTP endpoint is open") {
		t.Fatalf("nothing was logged: %s", got)
	}
	for _, secret := range []string{w.token, p.key} {
		if strings.Contains(got, secret) {
			t.Errorf("a secret is in the log: %s", got)
		}
	}
}

// C48, the server's side: after a restart the old session is unknown, a new one works.
func TestC48_StaleSessionAfterRestart(t *testing.T) {
	w := newWorld(t)
	old, token := w.attach(), w.token
	w.stop()
	w.open()
	if w.token != token {
		t.Error("the token is another one after the restart")
	}
	if r := old.post(ping); r.StatusCode != http.StatusNotFound {
		t.Errorf("the old session: %s", r.Status)
	}
	if r := w.attach().post(ping); r.StatusCode != http.StatusOK {
		t.Errorf("a new session: %s", r.Status)
	}
}

func TestEndpointMovesClosesAndOpensAsItIsTold(t *testing.T) {
	w := newWorld(t)
	old := w.url
	w.attach()
	w.e.Set(Settings{})
	w.reported(func(s status.HTTP) bool { return s == status.HTTP{} })
	if c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(old, "http://"), "/mcp")); err == nil {
		_ = c.Close()
		t.Error("the old port is still open")
	}
	eventually(t, "the sessions ended", func() bool { return len(w.hub.Sessions()) == 0 })
	w.e.Set(Settings{Listen: "localhost:0"})
	w.url = "http://" + w.reported(func(s status.HTTP) bool { return s.Listen != "" }).Listen + "/mcp"
	w.attach()
}

func TestPortInUseIsToldAndTriedAgain(t *testing.T) {
	w := newWorld(t, func(l *limits) { l.retry = 10 * time.Millisecond })
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	w.e.Set(Settings{Listen: address})
	got := w.reported(func(s status.HTTP) bool { return s.Error != "" })
	if got.Listen != address || !strings.Contains(got.Error, address) || !strings.Contains(got.Error, "another program") {
		t.Errorf("reported %+v", got)
	}
	w.reported(func(s status.HTTP) bool { return s.Error != "" }) // it is tried again
	_ = taken.Close()
	w.reported(func(s status.HTTP) bool { return s == status.HTTP{Listen: address} })
	if n := strings.Count(w.log.String(), "cannot be opened"); n != 1 {
		t.Errorf("it was logged %d times", n)
	}
}

func TestRemoteAddressIsNotOpenedUnasked(t *testing.T) {
	w := newWorld(t, func(l *limits) { l.retry = time.Hour })
	w.e.Set(Settings{Listen: "0.0.0.0:0"})
	if got := w.reported(func(s status.HTTP) bool { return s.Error != "" }); !strings.Contains(got.Error, "allowRemote") {
		t.Errorf("reported %+v", got)
	}
}

func TestInvariant7_EndWithOpenStreamsIsQuick(t *testing.T) {
	w := newWorld(t)
	p := w.attach()
	listening := p.get()
	answer := p.later(call("1"))
	w.next()
	idle, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = idle.Close() }()
	begun := time.Now()
	w.stop()
	if took := time.Since(begun); took > 5*time.Second { // 0.7 s on a machine that is not busy
		t.Errorf("it took %s", took)
	}
	if got := text(t, <-answer); !strings.Contains(got, "the session ended") {
		t.Errorf("the call got %s", got)
	}
	for {
		if _, ok := listening.next(); !ok {
			break
		}
	}
}

func TestSessionUnusedForLongestMakesWay(t *testing.T) {
	w := newWorld(t, func(l *limits) { l.sessions = 2 })
	first, second := w.attach(), w.attach()
	listening := first.get() // it is in use, though it is older
	third := w.attach()
	if r := second.post(ping); r.StatusCode != http.StatusNotFound {
		t.Errorf("the unused one: %s", r.Status)
	}
	if r := first.post(ping); r.StatusCode != http.StatusOK {
		t.Errorf("the used one: %s", r.Status)
	}
	also := third.get()
	r := w.do(t.Context(), http.MethodPost, w.url, initialize)
	if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %s", r.Status)
	}
	listening.close()
	also.close()
}

func TestUnusedSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newServing(Deps{}, defaultLimits(), guard{})
		ended := make(map[string]error)
		for _, key := range []string{"unused", "used"} {
			s := newSession(key, v.limits)
			s.end = func(why error) { ended[key] = why }
			v.sessions[key] = s
		}
		v.sessions["used"].enter()
		ctx, cancel := context.WithTimeout(t.Context(), 34*time.Minute)
		defer cancel()
		v.sweep(ctx)
		if len(ended) != 1 || !errors.Is(ended["unused"], errUnused) || v.find("unused") != nil || v.find("used") == nil {
			t.Errorf("ended %v", ended)
		}
	})
}

func TestSlowRequestsAreGivenUp(t *testing.T) {
	w := newWorld(t, func(l *limits) { l.header, l.readBody = 50*time.Millisecond, 50*time.Millisecond })
	for name, part := range map[string]string{
		"header": "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-",
		"body": "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + w.token +
			"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"body of a stranger": "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
	} {
		c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		var got bytes.Buffer
		if _, err := got.ReadFrom(c); err != nil && os.IsTimeout(err) {
			t.Errorf("%s: the connection stays open", name)
		}
		_ = c.Close()
	}
}

// A stream may last longer than a request may take to arrive.
func TestTimeForABodyDoesNotLimitTheAnswer(t *testing.T) {
	p := newWorld(t, func(l *limits) {
		l.readBody, l.header, l.stall = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	}).attach()
	listening := p.get()
	answer := p.later(call("1"))
	q := p.next()
	time.Sleep(300 * time.Millisecond)
	reply(q, `{"x":1}`)
	if got := text(t, <-answer); !strings.Contains(got, `"x":1`) {
		t.Errorf("got %s", got)
	}
	p.session().mu.Lock()
	st, _ := p.session().listener()
	attached := st != nil && st.outlet != nil
	p.session().mu.Unlock()
	if !attached {
		t.Error("the listening stream broke")
	}
	// Neither does the time that a client may not read limit how long it listens.
	prime, _ := listening.next()
	again := p.get(header{"Last-Event-Id", prime.id})
	if _, err := io.ReadAll(listening.r); err != nil {
		t.Errorf("the listening stream ended with %v", err)
	}
	again.close()
}
