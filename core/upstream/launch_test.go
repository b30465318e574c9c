//go:build linux

package upstream

import (
	"context"
	"testing"

	"mcp-funnel/core/config"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

func TestLauncherOpensByType(t *testing.T) {
	l := launcher(t, discard{})
	l.HTTP = NewHTTPClient()
	for _, test := range []struct {
		entry config.Server
		fits  func(Transport) bool
	}{
		{config.Server{Type: config.HTTP}, func(t Transport) bool { _, ok := t.(*streamable); return ok }},
		{config.Server{Type: config.HTTP, FallbackSSE: true}, func(t Transport) bool { _, ok := t.(*fallback); return ok }},
		{config.Server{Type: config.SSE}, func(t Transport) bool { _, ok := t.(*eventStream); return ok }},
	} {
		test.entry.URL = "http://127.0.0.1:1/"
		transport, err := l.Open(test.entry)(t.Context())
		if err != nil || !test.fits(transport) {
			t.Fatalf("%+v opens %T, %v", test.entry, transport, err)
		}
		transport.Close()
	}
}

// A server of which only the url is known is found, lost with its stream, and found again.
func TestC54_UpstreamOverTheOlderSSEComesBack(t *testing.T) {
	peer := newSSEPeer(t, func(p *ssePeer) {
		p.answer = func(send func(string), m jsonrpc.Message) { send(resultFor(m, `{"tools":[]}`)) }
	})
	u, board := httpRig(t, peer.sse(), func(s *config.Server) { s.FallbackSSE = true })
	for restarts := range 2 {
		caller := newInbox()
		u.Forward(request(t, callX, caller))
		if got := caller.wait(t); got != `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}` {
			t.Errorf("the reply is %s", got)
		}
		if s, _ := board.Snapshot().Server("api"); s.State != status.Connected || s.Restarts != restarts {
			t.Errorf("server %+v, want %d restarts", s, restarts)
		}
		if restarts > 0 {
			break
		}
		peer.CloseClientConnections()
		for after := uint64(0); ; {
			ctx, cancel := context.WithTimeout(t.Context(), peerWait)
			snap, err := board.Wait(ctx, after)
			cancel()
			if err != nil {
				t.Fatal("the loss was not noticed, or the server not found again")
			}
			if s, _ := snap.Server("api"); s.State == status.Connected && s.Restarts == 1 {
				break
			}
			after = snap.Generation
		}
	}
}
