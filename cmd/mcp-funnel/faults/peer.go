//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// peer is an HTTP server that breaks in every way it is told to (MCP 2025-11-25,
// "Streamable HTTP"). Its address stays the same over all of its lives.
type peer struct {
	address string

	mu     sync.Mutex
	server *http.Server
	// sessions of this life; the next one knows none of them.
	sessions map[string]bool
	serial   int
	// streams: it offers the stream for what nobody asked for.
	streams bool
	tools   []string
	// status, unless 0, is what every POST gets, with that Retry-After.
	status     int
	retryAfter string
	// requests are when each POST came, in all lives.
	requests []time.Time
}

// newPeer returns a peer that listens on the address, of which the port may be 0.
func newPeer(address string) (*peer, error) {
	p := &peer{address: address, tools: []string{"pid"}}
	return p, p.start()
}

// start begins a life.
func (p *peer) start() error {
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		return fmt.Errorf("starting an HTTP server: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.address = listener.Addr().String()
	p.sessions = make(map[string]bool)
	p.server = &http.Server{Handler: http.HandlerFunc(p.handle), ReadHeaderTimeout: patience}
	server := p.server
	go func() { _ = server.Serve(listener) }() // it ends with Close
	return nil
}

// stop ends a life: from now on connections are refused.
func (p *peer) stop() {
	p.mu.Lock()
	server := p.server
	p.mu.Unlock()
	_ = server.Close() // the listener may be closed already
}

func (p *peer) url() string { return "http://" + p.address + "/mcp" }

// change changes how it behaves.
func (p *peer) change(how func(*peer)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how(p)
}

// requestsSince are those that came after that moment.
func (p *peer) requestsSince(at time.Time) []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.requests, at.Before)
	if i < 0 {
		return nil
	}
	return slices.Clone(p.requests[i:])
}

func (p *peer) handle(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		p.post(w, r)
	case http.MethodGet:
		p.stream(w, r)
	default:
		w.WriteHeader(http.StatusOK)
	}
}

// stream holds the stream for what nobody asked for until the client or this life
// ends.
func (p *peer) stream(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	offered := p.streams
	p.mu.Unlock()
	if !offered {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_ = http.NewResponseController(w).Flush() // whoever is gone is told by the context
	<-r.Context().Done()
}

func (p *peer) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var m incoming
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := p.answer(w.Header(), m, r.Header.Get("Mcp-Session-Id"))
	if answer.body != "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(answer.status)
	_, _ = io.WriteString(w, answer.body) // whoever does not read has gone
}

type httpAnswer struct {
	status int
	body   string
}

// answer decides about one message and sets headers of its answer.
func (p *peer) answer(header http.Header, m incoming, session string) httpAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, time.Now())
	switch {
	case p.status != 0:
		if p.retryAfter != "" {
			header.Set("Retry-After", p.retryAfter)
		}
		return httpAnswer{p.status, ""}
	case m.Method == "initialize":
		p.serial++
		session = fmt.Sprintf("session-%d-%d", p.serial, time.Now().UnixNano())
		p.sessions[session] = true
		header.Set("Mcp-Session-Id", session)
	case !p.sessions[session]:
		return httpAnswer{http.StatusNotFound, ""}
	}
	if m.ID == nil {
		return httpAnswer{http.StatusAccepted, ""}
	}
	result := "{}"
	switch m.Method {
	case "initialize":
		result = initializeResult(m.Params.ProtocolVersion)
	case "tools/list":
		result = toolList(p.tools)
	case "tools/call":
		result = textResult(fmt.Sprint("life ", p.serial))
	}
	return httpAnswer{http.StatusOK, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)}
}

// servePeer is a peer as a program of its own.
func servePeer(address string) error {
	p, err := newPeer(address)
	if err != nil {
		return err
	}
	stay()
	p.stop()
	return nil
}

// proxy passes connections on to a target, and holds back everything while it is
// frozen, as a network does that has lost its way.
type proxy struct {
	listener net.Listener
	target   string

	mu sync.Mutex
	// held is closed when the network is back; nil while it is there.
	held  chan struct{}
	conns []net.Conn
}

func newProxy(target string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a proxy: %w", err)
	}
	p := &proxy{listener: listener, target: target}
	go p.accept()
	return p, nil
}

func (p *proxy) url() string { return "http://" + p.listener.Addr().String() + "/mcp" }

// accept ends with the listener.
func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, near, far)
		p.mu.Unlock()
		go p.carry(near, far)
		go p.carry(far, near)
	}
}

// carry copies one direction until that ends.
func (p *proxy) carry(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		held := p.held
		p.mu.Unlock()
		if held != nil {
			<-held // what a lost network swallows, the end of a connection too
		}
		if err != nil {
			_ = to.Close()
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			_ = from.Close()
			return
		}
	}
}

// freeze holds everything back from now on.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// thaw lets everything go on.
func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// close ends the proxy with its connections.
func (p *proxy) close() {
	_ = p.listener.Close()
	p.thaw()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		_ = conn.Close() // it may have ended
	}
}

// peer starts an HTTP server on loopback that ends with the trial.
func (t *trial) peer() (*peer, error) {
	p, err := newPeer("127.0.0.1:0")
	if err == nil {
		t.cleanup(p.stop)
	}
	return p, err
}

// at is a server at that URL in the config.
func at(url string) entry { return entry{Type: "http", URL: url, Reconnect: quick()} }

// measureCall calls a tool and returns how long it took from begun on.
func measureCall(ctx context.Context, c *session, tool string, begun time.Time) (string, time.Duration, error) {
	text, err := c.call(ctx, tool)
	if err != nil {
		err = errors.Join(fmt.Errorf("calling %s failed after %s", tool, short(time.Since(begun))), err)
	}
	return text, time.Since(begun), err
}
