package endpoint

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestAnswerIsJSONWhenNothingComesBeforeIt(t *testing.T) {
	p := newWorld(t).attach()
	answer := p.later(call("1"))
	reply(p.next(), `{"content":[]}`)
	r := <-answer
	if got := text(t, r); r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" || got != `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}` {
		t.Errorf("%s %v %s", r.Status, r.Header, got)
	}
}

func TestC89_ProgressMakesItAStreamThatEndsWithTheAnswer(t *testing.T) {
	p := newWorld(t).attach()
	answer := p.later(call(`"p1"`))
	q := p.next()
	progress(q, `"p1"`, 1)
	e := readEvents(t, <-answer)
	prime, _ := e.next()
	if prime.data != "" || prime.id == "" {
		t.Errorf("the stream begins with %+v, not with an id", prime)
	}
	if got := e.message(); !strings.Contains(got.data, `"progressToken":"p1"`) || got.name != "message" {
		t.Errorf("progress: %+v", got)
	}
	progress(q, `"p1"`, 2)
	reply(q, `{"a":1e400}`)
	if got := e.message(); !strings.Contains(got.data, `"progress":2`) {
		t.Errorf("progress: %+v", got)
	}
	if got := e.message(); got.data != `{"jsonrpc":"2.0","id":"p1","result":{"a":1e400}}` {
		t.Errorf("answer: %+v", got)
	}
	e.ends()
}

func TestOlderClientsGetNoEventsWithoutData(t *testing.T) {
	p := newWorld(t).attach()
	for _, version := range []string{"2025-06-18", ""} {
		answer := p.later(call("1"), header{"Mcp-Protocol-Version", version})
		q := p.next()
		progress(q, "1", 1)
		e := readEvents(t, <-answer)
		if first, _ := e.next(); first.data == "" || first.id == "" {
			t.Errorf("%q: the stream begins with %+v", version, first)
		}
		reply(q, `{}`)
		e.message()
		e.ends()
	}
}

func TestSlowAnswerBeginsItsStreamBefore(t *testing.T) {
	p := newWorld(t, func(l *limits) { l.stream = 10 * time.Millisecond; l.keepAlive = 10 * time.Millisecond }).attach()
	r := <-p.later(call("1"))
	e := readEvents(t, r)
	line := ""
	for !strings.HasPrefix(line, ":") { // a comment
		var err error
		if line, err = e.r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	reply(p.next(), `{}`)
	if got := e.message(); got.data != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("answer: %+v", got)
	}
}

// Two calls at once: progress goes to the stream of its own call.
func TestProgressOfTwoCallsIsNotMixed(t *testing.T) {
	p := newWorld(t).attach()
	first := p.later(call("1"))
	q1 := p.next()
	second := p.later(call("2"))
	q2 := p.next()
	progress(q2, "2", 22)
	e2 := readEvents(t, <-second)
	progress(q1, "1", 11)
	e1 := readEvents(t, <-first)
	reply(q2, `{"n":2}`)
	reply(q1, `{"n":1}`)
	for e, want := range map[*events][2]string{e1: {`"progress":11`, `"n":1`}, e2: {`"progress":22`, `"n":2`}} {
		for _, part := range want {
			if got := e.message(); !strings.Contains(got.data, part) {
				t.Errorf("got %s, want %s", got.data, part)
			}
		}
		e.ends()
	}
}

func TestBrokenStreamIsResumedWhereItWas(t *testing.T) {
	p := newWorld(t).attach()
	answer := p.later(call("1"))
	q := p.next()
	progress(q, "1", 1)
	progress(q, "1", 2)
	e := readEvents(t, <-answer)
	first := e.message()
	e.message()
	e.close()
	progress(q, "1", 3)
	reply(q, `{"late":true}`)
	again := p.get(header{"Last-Event-Id", first.id})
	for _, want := range []string{`"progress":2`, `"progress":3`, `"late":true`} {
		if got := again.message(); !strings.Contains(got.data, want) {
			t.Errorf("got %s, want %s", got.data, want)
		}
	}
	again.ends()
	// Nothing of another stream, and nothing more of this one.
	last := p.get(header{"Last-Event-Id", "get-1-1"})
	last.close()
}

// The id of the priming event will do as well.
func TestStreamIsResumedBeforeItsFirstMessage(t *testing.T) {
	p := newWorld(t, func(l *limits) { l.stream = time.Millisecond }).attach()
	e := readEvents(t, <-p.later(call("1")))
	prime, _ := e.next()
	e.close()
	again := p.get(header{"Last-Event-Id", prime.id})
	reply(p.next(), `{"x":1}`)
	if got := again.message(); !strings.Contains(got.data, `"x":1`) {
		t.Errorf("answer: %+v", got)
	}
	again.ends()
}

func TestFinishedStreamIsNotResumedForEver(t *testing.T) {
	p := newWorld(t, func(l *limits) { l.keptEvents = 1 }).attach()
	var ids []string
	for range 2 {
		answer := p.later(call("1"))
		q := p.next()
		progress(q, "1", 1)
		reply(q, `{}`)
		e := readEvents(t, <-answer)
		ids = append(ids, e.message().id)
		e.message()
		e.ends()
	}
	var status int
	eventually(t, "the first stream is forgotten", func() bool {
		r := p.do(t.Context(), http.MethodGet, p.url, "", p.headers([]header{{"Last-Event-Id", ids[0]}})...)
		status = r.StatusCode
		_ = r.Body.Close()
		return status == http.StatusNoContent
	})
}

func TestChangedListsWaitForAListener(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	done := make(chan struct{})
	go func() { defer close(done); _ = w.hub.Run(ctx) }()
	t.Cleanup(func() { <-done })
	p := w.attach()
	w.setTools("echo", "more")
	eventually(t, "the session has the notification", func() bool {
		s := p.session()
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.listeners()) == 1
	})
	e := p.get()
	first := e.message()
	if !strings.Contains(first.data, "tools/list_changed") {
		t.Errorf("got %+v", first)
	}
	e.close()
	w.setTools("echo")
	again := p.get(header{"Last-Event-Id", first.id})
	if got := again.message(); !strings.Contains(got.data, "tools/list_changed") || got.id == first.id {
		t.Errorf("got %+v", got)
	}
	// A second listener may be there as well; only one of them is told.
	second := p.get()
	w.setTools("echo", "third")
	if got := second.message(); !strings.Contains(got.data, "tools/list_changed") {
		t.Errorf("got %+v", got)
	}
}

// A call under way has nothing to do with a changed list, where somebody listens.
func TestChangedListsDoNotGoToACall(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	done := make(chan struct{})
	go func() { defer close(done); _ = w.hub.Run(ctx) }()
	t.Cleanup(func() { <-done })
	p := w.attach()
	listening := p.get()
	answer := p.later(call("1"))
	q := p.next()
	w.setTools("echo", "more")
	if got := listening.message(); !strings.Contains(got.data, "tools/list_changed") {
		t.Errorf("got %+v", got)
	}
	reply(q, `{}`)
	if got := text(t, <-answer); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("the call got %s", got)
	}
}

// session is that of the peer, inside.
func (p *peer) session() *session {
	p.t.Helper()
	s, ok := p.sessions.Load(p.key)
	if !ok {
		p.t.Fatal("the hub has no such session")
	}
	return s.(*session)
}

func TestListenerThatComesBackTakesTheOldOnesPlace(t *testing.T) {
	p := newWorld(t, func(l *limits) { l.keepAlive = time.Hour }).attach()
	old := p.get()
	prime, _ := old.next()
	again := p.get(header{"Last-Event-Id", prime.id})
	old.ends()
	again.close()
}

func TestC87_CancelledRequestGetsNoAnswer(t *testing.T) {
	p := newWorld(t).attach()
	answer := p.later(call("101"))
	q := p.next()
	if r := p.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":101}}`); r.StatusCode != http.StatusAccepted {
		t.Errorf("cancelled: %s", r.Status)
	}
	if got := <-p.server.cancelled; !strings.Contains(got, "101") {
		t.Errorf("the server was told %s", got)
	}
	reply(q, `{}`)
	e := readEvents(t, <-answer)
	if got, ok := e.next(); !ok || got.data != "" {
		t.Errorf("got %+v", got)
	}
	e.ends()
}

func TestLostConnectionCancelsNothing(t *testing.T) {
	p := newWorld(t).attach()
	e := make(chan *http.Response, 1)
	go func() { e <- p.post(call("1")) }()
	q := p.next()
	progress(q, "1", 1)
	stream := readEvents(t, <-e)
	stream.close()
	select {
	case got := <-p.server.cancelled:
		t.Errorf("cancelled: %s", got)
	case <-time.After(50 * time.Millisecond):
	}
}

func TestInvariant4_EndOfTheSessionAnswersWhatIsUnanswered(t *testing.T) {
	p := newWorld(t).attach()
	answer := p.later(call("1"))
	streaming := p.later(call("2"))
	p.next()
	q := p.next()
	progress(q, string(q.Message.ID.Of(q.Message.Raw)), 1)
	if r := p.do(t.Context(), http.MethodDelete, p.url, "", p.headers(nil)...); r.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", r.Status)
	}
	for _, r := range []*http.Response{<-answer, <-streaming} {
		if got := text(t, r); strings.Count(got, `"error":{"code":-32000,"message":"the session ended`) != 1 {
			t.Errorf("got %s", got)
		}
	}
	if r := p.post(call("3")); r.StatusCode != http.StatusNotFound {
		t.Errorf("after DELETE: %s", r.Status)
	}
}

func TestRequestHandedBackByAnAppThatIsReplacedIsAnswered(t *testing.T) {
	p := newWorld(t).attach()
	answer := p.later(call("1"))
	p.next()
	p.hub.Bye("replace")
	if got := text(t, <-answer); !strings.Contains(got, "send it again") {
		t.Errorf("got %s", got)
	}
}

func TestInvariant6_ClientThatDoesNotReadIsCutOffAlone(t *testing.T) {
	w := newWorld(t, func(l *limits) { l.backlog = 1 << 20; l.stall = time.Hour })
	deaf, other := w.attach(), w.attach()
	answer := deaf.later(call("1"))
	q := w.next()
	progress(q, "1", 1)
	r := <-answer // and is not read
	large := `{"x":"` + strings.Repeat("x", 1<<20) + `"}`
	gone := make(chan struct{})
	s := deaf.session()
	go func() { <-s.over; close(gone) }()
	for n := 0; ; n++ {
		r := q.Caller
		r.Progress(q, []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2,"message":`+large+`}}`))
		select {
		case <-gone:
		default:
			if n < 100 {
				continue
			}
			select { // it takes a moment, on a busy machine
			case <-gone:
			case <-time.After(20 * time.Second):
				t.Fatal("100 MiB wait for a client that does not read")
			}
		}
		break
	}
	_ = r.Body.Close()
	fine := other.later(call("1"))
	reply(w.next(), `{}`)
	if got := text(t, <-fine); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("the other got %s", got)
	}
}

func TestInvariant5_BytesOfAResultAreUnchanged(t *testing.T) {
	p := newWorld(t).attach()
	for _, result := range []string{
		`{"n":9223372036854775807,"m":9007199254740993,"e":1e400,"z":-0.0,"d":1.0}`,
		`{"s":"\u2028\ud83d\ude00\/<&> é","k":{"b":1,"a":2},  "sp" : [ 1 ,2 ]}`,
		`{"structuredContent":{"a":null},"content":[{"type":"video","x-vendor":[]}],"isError":false}`,
	} {
		answer := p.later(call("1"))
		reply(p.next(), result)
		if got := text(t, <-answer); got != `{"jsonrpc":"2.0","id":1,"result":`+result+`}` {
			t.Errorf("as JSON: %s", got)
		}
		answer = p.later(call("1"))
		q := p.next()
		progress(q, "1", 1)
		reply(q, result)
		e := readEvents(t, <-answer)
		e.message()
		if got := e.message(); got.data != `{"jsonrpc":"2.0","id":1,"result":`+result+`}` {
			t.Errorf("as an event: %s", got.data)
		}
	}
}

func TestArgumentsArriveUnchanged(t *testing.T) {
	p := newWorld(t).attach()
	arguments := `{"n":9223372036854775807,"e":1e400,"s":"\u000a\n\r"}`
	answer := p.later("{\n \"jsonrpc\":\"2.0\",\r\n\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"s__echo\",\n\"arguments\":" + arguments + "}}\n")
	q := p.next()
	if got := string(q.Message.Params.Of(q.Message.Raw)); !strings.Contains(got, `"arguments":`+arguments) || strings.ContainsAny(got, "\r\n") {
		t.Errorf("the server got %s", got)
	}
	reply(q, `{}`)
	<-answer
}
