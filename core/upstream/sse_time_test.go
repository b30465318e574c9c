package upstream

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// sseScript is an http.RoundTripper for tests in a bubble.
type sseScript struct {
	// endpoint says whether the stream begins with an endpoint event.
	endpoint bool
	write    func(string)
	// posted gets every message but initialize.
	posted func(m jsonrpc.Message)
}

func (s *sseScript) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		resp, write, _ := openStream(r)
		resp.Request = r
		s.write = write
		if s.endpoint {
			go write("event: endpoint\ndata: /m\n\n")
		}
		return resp, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m, err := jsonrpc.Parse(body)
	if err != nil {
		return nil, err
	}
	if m.MethodName() == string(mcp.MethodInitialize) {
		go s.write("data: " + resultFor(m, `{"protocolVersion":"2024-11-05","capabilities":{}}`) + "\n\n")
	} else if s.posted != nil {
		go s.posted(m)
	}
	return respondWith(202, "", ""), nil
}

func (s *sseScript) endpointFor() Endpoint {
	return Endpoint{
		Server: "s", URL: "http://h/sse", Client: &http.Client{Transport: s, CheckRedirect: sameOrigin},
		Mask: func(text string) string { return text }, Logger: slog.New(slog.DiscardHandler),
	}
}

// sseAsker is a client that answers a server's question after a while.
type sseAsker struct {
	*inbox

	takes time.Duration
}

func (a *sseAsker) Ask(q *Question) {
	go func() {
		time.Sleep(a.takes)
		m, _ := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":0,"result":{"action":"accept"}}`))
		q.Answer(m)
	}()
}

// What a server asks a person, and the answer.
const (
	personAsked = `{"jsonrpc":"2.0","id":"q-1","method":"elicitation/create","params":{}}`
	personSaid  = `{"jsonrpc":"2.0","id":"q-1","result":{"action":"accept"}}`
)

// A person takes minutes for an answer, and the call as long; the stream is silent.
func TestC52_SSEPersonTakesMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sseScript{endpoint: true}
		var call jsonrpc.Message
		s.posted = func(m jsonrpc.Message) {
			switch m.Kind {
			case jsonrpc.Request:
				call = m
				s.write("data: " + personAsked + "\n\n")
			case jsonrpc.Response:
				if string(m.Raw) != personSaid {
					t.Errorf("the server got %s", m.Raw)
				}
				s.write("data: " + resultFor(call, `"thanks"`) + "\n\n")
			default: // initialized
			}
		}
		l, _ := linkedBy(t, openSSE, s.endpointFor())
		defer l.transport.Close()
		caller := &sseAsker{newInbox(), 10 * time.Minute}
		began := time.Now()
		if err := l.forward(request(t, callX, caller)); err != nil {
			t.Fatal(err)
		}
		if reply := <-caller.replies; reply != `{"jsonrpc":"2.0","id":1,"result":"thanks"}` || time.Since(began) != 10*time.Minute {
			t.Errorf("after %s came %s", time.Since(began), reply)
		}
	})
}

func TestSSEStreamWithoutAnEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sseScript{}
		transport, err := openSSE(context.Background(), s.endpointFor())
		if err != nil {
			t.Fatal(err)
		}
		defer transport.Close()
		began := time.Now()
		transport.Start(newTestSink())
		<-transport.Done()
		if text := transport.Err().Error(); !strings.Contains(text, "did not say within 10s where messages go") || time.Since(began) != endpointTimeout {
			t.Errorf("after %s: %s", time.Since(began), text)
		}
	})
}
