package hub

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-funnel/core/catalog"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/upstream"
)

// attachAs attaches a client of which the bridge said something, and greets it.
func (w *world) attachAs(peer Peer, capabilities string) (*client, *session) {
	w.t.Helper()
	ours, theirs := net.Pipe()
	c := &client{t: w.t, conn: ours, lines: make(chan string, 1000), link: make(chan string, 1000), over: make(chan error, 1)}
	w.work.Go(func() { c.over <- w.hub.Serve(w.ctx, w.hub.NewID(), theirs, bufio.NewReader(theirs), peer) })
	w.work.Go(func() {
		defer close(c.lines)
		reader := jsonrpc.NewReader(ours, 0)
		for {
			line, err := reader.Read()
			if err != nil {
				return
			}
			if !strings.HasPrefix(string(line), `{"mcp-funnel":`) {
				c.lines <- string(line)
			}
		}
	})
	c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"clientInfo":{"name":"x","version":"1"}}}`)
	c.receive()
	sessions := w.hub.all()
	return c, sessions[len(sessions)-1]
}

// asked is a question of ours that the client got: its id.
func (c *client) asked(method string) string {
	c.t.Helper()
	line := c.receive()
	m, err := jsonrpc.Parse([]byte(line))
	if err != nil || m.MethodName() != method {
		c.t.Fatalf("the client got %s", line)
	}
	return string(m.ID.Of(m.Raw))
}

func TestFolderOfASession(t *testing.T) {
	const roots = `{"roots":{"listChanged":true}}`
	cases := []struct {
		name         string
		peer         Peer
		capabilities string
		answer       string // to roots/list; "" is none, "-" means that it is not asked
		want         string
	}{
		{"what the client says counts most", Peer{ProjectDir: "/dir", CWD: "/cwd"}, roots, "-", "/dir"},
		{"then its first root", Peer{CWD: "/cwd"}, roots, `"result":{"roots":[{"uri":"https://x/y"},{"uri":"file:///my%20root"},{"uri":"file:///other"}]}`, "/my root"},
		{"a root on another host is none", Peer{CWD: "/cwd"}, roots, `"result":{"roots":[{"uri":"file://host/share"}]}`, "/cwd"},
		{"without roots where it runs", Peer{CWD: "/cwd"}, roots, `"result":{"roots":[]}`, "/cwd"},
		{"or when it refuses", Peer{CWD: "/cwd"}, roots, `"error":{"code":-32601,"message":"no"}`, "/cwd"},
		{"or does not answer", Peer{CWD: "/cwd"}, roots, "", "/cwd"},
		{"or has none at all", Peer{CWD: "/cwd"}, `{}`, "-", "/cwd"},
		{"the home folder is no project", Peer{CWD: "/home/u/"}, `{}`, "-", ""},
		{"nor is the system's", Peer{CWD: "/"}, `{}`, "-", ""},
		{"nor is a relative one", Peer{CWD: "here", ProjectDir: "there"}, `{}`, "-", ""},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			in(t, nil, func(t *testing.T, w *world) {
				w.hub.deps.Home = "/home/u"
				c, s := w.attachAs(test.peer, test.capabilities)
				begun := time.Now()
				found := make(chan string, 1)
				w.work.Go(func() {
					folder, err := s.Folder(context.Background())
					if err != nil && !strings.Contains(err.Error(), "CLAUDE_PROJECT_DIR") {
						t.Errorf("error %v", err)
					}
					found <- folder
				})
				if test.answer != "-" {
					id := c.asked("roots/list")
					if test.answer != "" {
						c.send(`{"jsonrpc":"2.0","id":` + id + `,` + test.answer + `}`)
					} else if got := c.receive(); !strings.Contains(got, "notifications/cancelled") || !strings.Contains(got, id) {
						t.Errorf("then came %s", got)
					}
				}
				if got := <-found; got != test.want {
					t.Errorf("folder %q, want %q", got, test.want)
				}
				if took := time.Since(begun); took > rootsTime {
					t.Errorf("took %s", took)
				}
				c.silent()
			})
		})
	}
}

func TestFolderIsAskedForAgainOnlyWhenRootsChanged(t *testing.T) {
	in(t, nil, func(t *testing.T, w *world) {
		c, s := w.attachAs(Peer{}, `{"roots":{}}`)
		for _, root := range []string{"/one", "/two"} {
			found := make(chan string, 1)
			w.work.Go(func() { folder, _ := s.Folder(context.Background()); found <- folder })
			c.send(`{"jsonrpc":"2.0","id":` + c.asked("roots/list") + `,"result":{"roots":[{"uri":"file://` + root + `"}]}}`)
			if got := <-found; got != root {
				t.Errorf("folder %s, want %s", got, root)
			}
			if again, err := s.Folder(context.Background()); again != root || err != nil {
				t.Errorf("folder %s, %v", again, err)
			}
			c.silent()
			c.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
			if note := <-w.server.notes; !strings.Contains(note, "roots/list_changed") {
				t.Errorf("the server got %s", note)
			}
			synctest.Wait()
		}
	})
}

func TestServersAreToldOfSessions(t *testing.T) {
	in(t, []string{"a"}, func(t *testing.T, w *world) {
		told := make(chan string, 10)
		w.hub.deps.Joined = func(s upstream.Session) { told <- "joined " + s.ID() + " " + s.Label() }
		w.hub.deps.Left = func(s upstream.Session) { told <- "left " + s.ID() }
		c, _ := w.attachAs(Peer{}, `{}`)
		for range 2 {
			c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		}
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__a"}}`)
		if r := <-w.server.requests; r.From == nil || r.From.ID() != "s1" {
			t.Errorf("the request comes from %v", r.From)
		}
		_ = c.conn.Close()
		<-w.server.cancelled // before it left
		<-c.over
		close(told)
		var got []string
		for line := range told {
			got = append(got, line)
		}
		if strings.Join(got, ", ") != "joined s1 x, left s1" {
			t.Errorf("told %q", got)
		}
	})
}

func TestListChangedGoesToThoseWhoSeeAnotherList(t *testing.T) {
	in(t, []string{"a"}, func(t *testing.T, w *world) {
		close(w.ready)
		one, first := w.attachAs(Peer{}, `{}`)
		two, _ := w.attachAs(Peer{}, `{}`)
		tool := [][]byte{[]byte(`{"name":"b","inputSchema":{"type":"object"}}`)}
		special := catalog.New([]catalog.Source{{Server: "s", Prefix: "s", Tools: tool}}, catalog.Filter{})
		w.hub.SetCatalogs(w.hub.Catalog(), map[string]*catalog.Catalog{first.id: special})
		one.want(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		time.Sleep(settleTime)
		two.silent()
		for c, has := range map[*client]string{one: `"s__b"`, two: `"s__a"`} {
			c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			if got := c.receive(); !strings.Contains(got, has) {
				t.Errorf("listed: %s", got)
			}
		}
	})
}

func TestNewsAndWishesOfSomeSessionsOnly(t *testing.T) {
	in(t, []string{"a"}, func(t *testing.T, w *world) {
		one, first := w.attachAs(Peer{}, `{}`)
		two, _ := w.attachAs(Peer{}, `{}`)
		m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`))
		if err != nil {
			t.Fatal(err)
		}
		w.hub.NewsFor("s", []string{first.id}, m)
		one.want(string(m.Raw))
		two.silent()
		w.hub.NewsFor("s", nil, m)
		one.silent()
		two.send(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`)
		two.receive()
		if _, level := w.hub.WantedBy("s", []string{first.id}); level != "" {
			t.Errorf("the first wants level %s", level)
		}
		if _, level := w.hub.Wanted("s"); level != "debug" {
			t.Errorf("all want level %s", level)
		}
	})
}
