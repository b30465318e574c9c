package upstream

import (
	"strings"
	"testing"

	"mcp-funnel/core/jsonrpc"
)

// asker is a caller that keeps the questions it is asked.
type asker struct {
	inbox

	asked, withdrawn []*Question
	told             []string
}

func newAsker() *asker { return &asker{inbox: *newInbox()} }

func (a *asker) Ask(q *Question)      { a.asked = append(a.asked, q) }
func (a *asker) Withdraw(q *Question) { a.withdrawn = append(a.withdrawn, q) }
func (a *asker) Tell(raw []byte)      { a.told = append(a.told, string(raw)) }

// wire is a transport that keeps what it is sent.
type wire struct {
	fakeTransport

	sent []string
}

func (w *wire) Send(m jsonrpc.Message) (int, error) {
	w.sent = append(w.sent, string(m.Raw))
	return 0, nil
}

// wired is a link over a wire with a call of each caller under way; ids count from 1.
func wired(t *testing.T, callers ...Caller) (*link, *wire) {
	t.Helper()
	l, w := newLink("s", 0), &wire{}
	l.transport = w
	for _, caller := range callers {
		if err := l.forward(request(t, `{"jsonrpc":"2.0","id":"c","method":"tools/call"}`, caller)); err != nil {
			t.Fatal(err)
		}
	}
	w.sent = nil
	return l, w
}

func receive(t *testing.T, l *link, line string, cause int64) {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	l.Receive(m, cause)
}

const sampling = `{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"n":1e400}}`

// A server's request goes to the client that provably caused it, or to nobody.
func TestQuestionGoesToWhoCausedIt(t *testing.T) {
	a, b := newAsker(), newAsker()
	for name, test := range map[string]struct {
		callers []Caller
		cause   int64
		want    *asker
	}{
		"the only caller":           {[]Caller{a}, 0, a},
		"the only caller, twice":    {[]Caller{b, b}, 0, b},
		"the one whose stream":      {[]Caller{a, b}, 2, b},
		"two callers":               {[]Caller{a, b}, 0, nil},
		"nobody":                    {nil, 0, nil},
		"a stream that is answered": {[]Caller{a, b}, 9, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a.asked, b.asked = nil, nil
			l, w := wired(t, test.callers...)
			receive(t, l, sampling, test.cause)
			if test.want == nil {
				if len(a.asked)+len(b.asked) > 0 || len(w.sent) != 1 || !strings.HasPrefix(w.sent[0], `{"jsonrpc":"2.0","id":"s1","error":{"code":-32601,`) {
					t.Errorf("asked %d and %d times; the server got %s", len(a.asked), len(b.asked), w.sent)
				}
				return
			}
			if len(test.want.asked) != 1 || len(a.asked)+len(b.asked) != 1 {
				t.Fatalf("asked %d and %d times", len(a.asked), len(b.asked))
			}
			answer, _ := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":"ours-1","result":{"big":9007199254740993}}`))
			q := test.want.asked[0]
			q.Answer(answer)
			q.Answer(answer)
			q.Refuse(&jsonrpc.Error{Code: 1})
			if len(w.sent) != 1 || w.sent[0] != `{"jsonrpc":"2.0","id":"s1","result":{"big":9007199254740993}}` {
				t.Errorf("the server got %s", w.sent)
			}
		})
	}
}

func TestQuestionIsWithdrawnByItsServerOrWithIt(t *testing.T) {
	a := newAsker()
	l, w := wired(t, a)
	receive(t, l, sampling, 0)
	receive(t, l, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"other"}}`, 0)
	if len(a.withdrawn) != 0 {
		t.Error("another request's cancellation withdrew it")
	}
	receive(t, l, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s1"}}`, 0)
	if len(a.withdrawn) != 1 || a.withdrawn[0] != a.asked[0] {
		t.Errorf("withdrawn: %v", a.withdrawn)
	}
	a.asked[0].Refuse(&jsonrpc.Error{Code: 1})
	if len(w.sent) != 0 {
		t.Errorf("the server got %s", w.sent)
	}
	receive(t, l, sampling, 0)
	l.end(errStopped)
	if len(a.withdrawn) != 2 {
		t.Error("the end of the server left a question open")
	}
}

func TestServersPingIsAnswered(t *testing.T) {
	l, w := wired(t)
	receive(t, l, `{"jsonrpc":"2.0","id":4,"method":"ping"}`, 0)
	if len(w.sent) != 1 || w.sent[0] != `{"jsonrpc":"2.0","id":4,"result":{}}` {
		t.Errorf("the server got %s", w.sent)
	}
}

// What comes on the stream of a request is for its caller; the rest is news.
func TestNotificationsGoToTheirCallerOrAreNews(t *testing.T) {
	a, b := newAsker(), newAsker()
	l, _ := wired(t, a, b)
	var news []string
	l.news = func(m jsonrpc.Message) { news = append(news, string(m.Raw)) }
	note := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1e400}}`
	receive(t, l, note, 2)
	receive(t, l, note, 0)
	receive(t, l, note, 9)
	if len(a.told) != 0 || len(b.told) != 1 || b.told[0] != note || len(news) != 2 || news[0] != note {
		t.Errorf("told %v and %v, news %v", a.told, b.told, news)
	}
}
