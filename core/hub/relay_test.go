package hub

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcp-funnel/core/catalog"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/upstream"
)

// offer gives the world's server something of each kind.
func (w *world) offer() {
	w.hub.SetCatalog(catalog.New([]catalog.Source{{
		Server: "s", Prefix: "s", Instructions: "Be kind.",
		Tools:     [][]byte{[]byte(`{"name":"a","inputSchema":{"type":"object","properties":{}}}`)},
		Prompts:   [][]byte{[]byte(`{"name":"p"}`)},
		Resources: [][]byte{[]byte(`{"uri":"mem://r","name":"r"}`)},
		Templates: [][]byte{[]byte(`{"uriTemplate":"mem://{x}","name":"t"}`)},
	}}, catalog.Filter{}))
}

func full(t *testing.T, test func(*testing.T, *world)) {
	in(t, nil, func(t *testing.T, w *world) {
		w.offer()
		close(w.ready)
		test(t, w)
	})
}

// greet says initialize with what the client can do.
func (c *client) greet(capabilities string) string {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"clientInfo":{"name":"x","version":"1"}}}`)
	return c.receive()
}

func TestEverythingIsRelayedUnderTheServersOwnName(t *testing.T) {
	full(t, func(t *testing.T, w *world) {
		c := w.attach()
		if got := c.greet(`{}`); !strings.Contains(got, `"instructions":"# s\n\nBe kind."`) {
			t.Errorf("the handshake is answered with %s", got)
		}
		for line, own := range map[string]string{
			`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"s__p","arguments":{"n":1e400}}}`:                                           `"p"`,
			`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"mem://r"}}`:                                                              `"mem://r"`,
			`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"mem://other"}}`:                                                          `"mem://other"`,
			`{"jsonrpc":"2.0","id":4,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"s__p"},"argument":{"name":"x"}}}`:       `"p"`,
			`{"jsonrpc":"2.0","id":5,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"mem://{x}"},"argument":{"name":"x"}}}`: `"mem://{x}"`,
		} {
			c.send(line)
			r := <-w.server.requests
			if string(r.Message.Raw) != line || string(r.Name) != own || !r.NameAt.Present() {
				t.Errorf("%s: own name %s at %s", line, r.Name, r.NameAt.Of(r.Message.Raw))
			}
			reply(r, `{"y":1}`)
			if got := c.receive(); !strings.HasSuffix(got, `,"result":{"y":1}}`) {
				t.Errorf("reply %s", got)
			}
		}
		for method, want := range map[string]string{
			"prompts/list": `{"prompts":[{"name":"s__p"}]}`, "resources/list": `{"resources":[{"uri":"mem://r","name":"r"}]}`,
			"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"mem://{x}","name":"t"}]}`,
		} {
			c.send(`{"jsonrpc":"2.0","id":9,"method":"` + method + `"}`)
			c.want(`{"jsonrpc":"2.0","id":9,"result":` + want + `}`)
		}
	})
}

// What is not known here goes to the only server there is.
func TestVendorMethodsAndNotificationsGoToTheOnlyServer(t *testing.T) {
	full(t, func(t *testing.T, w *world) {
		c := w.attach()
		c.greet(`{}`)
		line := `{"jsonrpc":"2.0","id":1,"method":"acme/do","params":{"name":"left alone"}}`
		c.send(line)
		r := <-w.server.requests
		if string(r.Message.Raw) != line || r.Name != nil {
			t.Errorf("the server gets %s", r.Message.Raw)
		}
		note := `{"jsonrpc":"2.0","method":"notifications/acme","params":{"n":9007199254740993}}`
		c.send(note)
		if got := <-w.server.notes; got != "notify "+note {
			t.Errorf("the server gets %s", got)
		}
		theirs, _ := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"notifications/vendor","params":{"k":1e400}}`))
		stranger := w.attach() // it has not said initialize
		w.hub.News("s", theirs)
		c.want(string(theirs.Raw))
		stranger.silent()
	})
}

func TestLogLevelIsTheMostCuriousAndFilteredForEach(t *testing.T) {
	full(t, func(t *testing.T, w *world) {
		a, b := w.attach(), w.attach()
		a.greet(`{}`)
		b.greet(`{}`)
		level := func(c *client, level, want string) {
			c.send(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"` + level + `"}}`)
			c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
			if got := <-w.server.notes; got != "level "+want {
				t.Errorf("the server is told %s, want %s", got, want)
			}
		}
		level(a, "warning", "warning")
		level(b, "debug", "debug")
		level(a, "error", "debug")
		message := func(level string) string {
			return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + level + `","data":{"n":1e400}}}`
		}
		for _, level := range []string{"info", "error", "emergency"} {
			m, _ := jsonrpc.Parse([]byte(message(level)))
			w.hub.News("s", m)
		}
		a.want(message("error"))
		a.want(message("emergency"))
		a.silent()
		b.want(message("info"))
		b.want(message("error"))
		if _, got := w.hub.Wanted("s"); got != "debug" {
			t.Errorf("a new connection wants level %s", got)
		}
		_ = b.conn.Close()
		<-b.over
		if got := <-w.server.notes; got != "level error" {
			t.Errorf("when the curious one left the server is told %s", got)
		}
	})
}

func TestSubscriptionsAreSharedAndRestored(t *testing.T) {
	full(t, func(t *testing.T, w *world) {
		a, b := w.attach(), w.attach()
		a.greet(`{}`)
		b.greet(`{}`)
		ask := func(c *client, method string) {
			c.send(`{"jsonrpc":"2.0","id":1,"method":"resources/` + method + `","params":{"uri":"mem://r"}}`)
		}
		for _, c := range []*client{a, b} {
			ask(c, "subscribe")
			reply(<-w.server.requests, `{}`)
			c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		}
		kept := b.kept()
		if uris, _ := w.hub.Wanted("s"); fmt.Sprint(uris) != "[mem://r]" {
			t.Errorf("a new connection wants %s", uris)
		}
		update, _ := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"mem://r"}}`))
		w.hub.News("other", update)
		a.silent()
		w.hub.News("s", update)
		a.want(string(update.Raw))
		b.want(string(update.Raw))
		ask(a, "unsubscribe") // the other one still has it
		a.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		w.hub.News("s", update)
		a.silent()
		b.want(string(update.Raw))
		_ = b.conn.Close()
		<-b.over
		if got := <-w.server.notes; got != "unsubscribe mem://r" {
			t.Errorf("the server is told %s", got)
		}

		c := w.resume(kept)
		c.greet(`{}`)
		if got := <-w.server.notes; got != "subscribe mem://r" {
			t.Errorf("the server is told %s", got)
		}
		w.hub.News("s", update)
		c.want(string(update.Raw))
	})
}

// question makes one as an upstream would, over a server that notes what it is sent.
func question(t *testing.T, c *client, w *world, line string) (*upstream.Question, *askedServer) {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	s := &askedServer{sent: make(chan string, 10)}
	q := upstream.NewQuestion(m, s.send)
	c.session(w).Ask(q)
	return q, s
}

type askedServer struct{ sent chan string }

func (s *askedServer) send(raw []byte) { s.sent <- string(raw) }

func (s *askedServer) got(t *testing.T) string {
	t.Helper()
	select {
	case line := <-s.sent:
		return line
	case <-time.After(time.Minute):
		t.Fatal("the server got nothing")
		return ""
	}
}

// session is the hub's end of the client.
func (c *client) session(w *world) *session {
	sessions := w.hub.all()
	return sessions[len(sessions)-1]
}

func TestServersQuestionReachesTheClientAndComesBack(t *testing.T) {
	full(t, func(t *testing.T, w *world) {
		c := w.attach()
		c.greet(`{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}`)
		_, s := question(t, c, w, `{ "jsonrpc":"2.0","params":{"_meta":{"progressToken":"tok"},"n":9007199254740993},"method":"sampling/createMessage","id": 7 }`)
		var asked struct {
			ID     string
			Params struct {
				Meta struct {
					Token string `json:"progressToken"`
				} `json:"_meta"`
			}
		}
		line := c.receive()
		if err := json.Unmarshal([]byte(line), &asked); err != nil || asked.ID == "" || asked.Params.Meta.Token != asked.ID || !strings.Contains(line, `"n":9007199254740993`) {
			t.Fatalf("the client is asked %s (%v)", line, err)
		}
		c.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"` + asked.ID + `","progress":1e400}}`)
		if got := s.got(t); got != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok","progress":1e400}}` {
			t.Errorf("progress %s", got)
		}
		c.send(`{"jsonrpc":"2.0","id":"` + asked.ID + `","result":{"role":"assistant","big":9007199254740993}}`)
		if got := s.got(t); got != `{"jsonrpc":"2.0","id":7,"result":{"role":"assistant","big":9007199254740993}}` {
			t.Errorf("answer %s", got)
		}
		c.send(`{"jsonrpc":"2.0","id":"` + asked.ID + `","result":{}}`) // a second answer concerns nobody
		c.send(`{"jsonrpc":"2.0","id":5,"method":"ping"}`)
		c.receive()
		if len(s.sent) != 0 {
			t.Errorf("a second answer reached the server: %s", <-s.sent)
		}
	})
}

func TestClientIsNotAskedWhatItCannotDo(t *testing.T) {
	for capabilities, can := range map[string]string{
		`{}`: "", `{"sampling":{}}`: "sampling", `{"roots":{}}`: "roots", `{"elicitation":{}}`: "form",
		`{"elicitation":{"url":{}}}`: "url", `{"elicitation":{"form":{},"url":{}}}`: "form url", `{"sampling":null}`: "",
	} {
		full(t, func(t *testing.T, w *world) {
			c := w.attach()
			c.greet(capabilities)
			for name, line := range map[string]string{
				"sampling": `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`,
				"roots":    `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`,
				"form":     `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m"}}`,
				"url":      `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"url","elicitationId":"e"}}`,
			} {
				_, s := question(t, c, w, line)
				if strings.Contains(can, name) {
					if got := c.receive(); !strings.Contains(got, `"method":`) {
						t.Errorf("%s with %s: asked %s", name, capabilities, got)
					}
				} else if got := s.got(t); !strings.Contains(got, "-32601") {
					t.Errorf("%s with %s: the server gets %s", name, capabilities, got)
				}
				c.silent()
			}
		})
	}
}

func TestQuestionsEndWithTheirClientOrServer(t *testing.T) {
	full(t, func(t *testing.T, w *world) {
		c := w.attach()
		c.greet(`{"sampling":{}}`)
		line := `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`
		withdrawn, _ := question(t, c, w, line)
		asked, _ := jsonrpc.Parse([]byte(c.receive()))
		c.session(w).Withdraw(withdrawn)
		c.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + string(asked.ID.Of(asked.Raw)) + `}}`)

		_, s := question(t, c, w, line)
		c.receive()
		_ = c.conn.Close()
		<-c.over
		if got := s.got(t); !strings.Contains(got, `"id":1,"error":`) || !strings.Contains(got, "went away") {
			t.Errorf("the server gets %s", got)
		}
	})
}
