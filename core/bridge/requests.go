package bridge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"mcp-funnel/core/jsonrpc"
)

// How long things wait for an app.
const (
	// patience is for requests.
	patience = 5 * time.Second
	// listPatience is for lists, which are answered from memory then: clients that
	// ask for them first wait for nothing else.
	listPatience = 2 * time.Second
	// replacePatience is for requests when the app said it would be replaced.
	replacePatience = 30 * time.Second
)

// request is a line of the client that waits: for the app, or for its reply.
type request struct {
	// id is as on the wire; "" for a notification.
	id     string
	method string
	// list: it asks for the first page of a list, which memory can answer.
	list bool
	// line is the message; it is dropped once it is certain not to be needed again.
	line []byte
	// number is its place in the order of all requests.
	number int64
	// sent is the place of its line among those written to the app, from 1; 0 while
	// it was not given to any.
	sent int
	// timer ends its waiting when no app comes.
	timer *time.Timer
}

// repeatable reports whether r is sent again when nobody knows if it arrived: asking
// again changes nothing, but a call may.
func (r *request) repeatable() bool { return r.method != "tools/call" }

// listMethod reports whether a method asks for a list of what there is.
func listMethod(method string) bool {
	switch method {
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return true
	}
	return false
}

// emptyList is the result of a list method when nothing is known.
func emptyList(method string) []byte {
	member := map[string]string{
		"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources",
		"resources/templates/list": "resourceTemplates",
	}
	return []byte(`{"` + member[method] + `":[]}`)
}

// changedNotice is the notification that says that the list of a method changed.
func changedNotice(method string) string {
	switch method {
	case "tools/list":
		return "notifications/tools/list_changed"
	case "prompts/list":
		return "notifications/prompts/list_changed"
	}
	return "notifications/resources/list_changed"
}

// forget notes that the request with that id needs no reply any more. b.mu is held.
func (b *bridge) forget(id string) {
	delete(b.asked, id)
	b.open.Store(int64(len(b.asked)))
}

// inOrder returns the requests without a reply as they were asked. b.mu is held.
func (b *bridge) inOrder() []*request {
	requests := slices.Collect(maps.Values(b.asked))
	slices.SortFunc(requests, func(a, b *request) int { return cmp.Compare(a.number, b.number) })
	return requests
}

// withdraw drops a held request that the client cancels; it gets no reply. b.mu is
// held.
func (b *bridge) withdraw(m jsonrpc.Message) bool {
	span, ok := jsonrpc.Lookup(m.Raw, m.Params, "requestId")
	if !ok {
		return false
	}
	id := string(span.Of(m.Raw))
	r := b.asked[id]
	if r == nil {
		return false
	}
	b.forget(id) // no reply any more, whether it was sent or not
	return b.unhold(r)
}

// hold keeps r for the next attachment. b.mu is held.
func (b *bridge) hold(r *request) {
	r.sent = 0
	if b.heldSize+len(r.line) > maxBacklog {
		b.overflow(r)
		return
	}
	b.held = append(b.held, r)
	b.heldSize += len(r.line)
	if r.id == "" {
		return // no reason to attach by itself
	}
	b.wantLink()
	wait := patience
	switch {
	case b.bye == "replace":
		wait = replacePatience
	case r.list && b.bye == "quit":
		wait = 0 // nobody is on the way
	case r.list:
		wait = listPatience
	}
	r.timer = time.AfterFunc(wait, func() { b.giveUp(r) })
}

// overflow refuses what does not fit: a notification is dropped. b.mu is held.
func (b *bridge) overflow(r *request) {
	if r.id == "" {
		b.log.Warn("a notification of the client is dropped: too much waits for the app", "method", r.method)
		return
	}
	b.deny(r, "too much waits for MCP Funnel, which does not run; nothing was called")
}

// denial is a refusal that is due once b.mu is free: writing to the client may block.
type denial struct{ id, message string }

// deny refuses r soon. b.mu is held, and [bridge.unlock] has to follow.
func (b *bridge) deny(r *request, message string) {
	b.forget(r.id)
	b.denials = append(b.denials, denial{r.id, message})
}

// unlock unlocks b.mu and writes what was denied under it.
func (b *bridge) unlock() {
	denials := b.denials
	b.denials = nil
	b.mu.Unlock()
	for _, d := range denials {
		b.refuse([]byte(d.id), jsonrpc.CodeServerError, d.message)
	}
}

// release takes all that is held. b.mu is held.
func (b *bridge) release() []*request {
	held := b.held
	b.held, b.heldSize = nil, 0
	for _, r := range held {
		if r.timer != nil {
			r.timer.Stop()
		}
	}
	return held
}

// unhold takes r out of the held ones; false when it is not among them. b.mu is held.
func (b *bridge) unhold(r *request) bool {
	at := slices.Index(b.held, r)
	if at < 0 {
		return false
	}
	b.held = slices.Delete(b.held, at, at+1)
	b.heldSize -= len(r.line)
	if r.timer != nil {
		r.timer.Stop()
	}
	return true
}

// giveUp ends the waiting of a request for which no app came: lists are answered from
// memory, the others refused.
func (b *bridge) giveUp(r *request) {
	b.mu.Lock()
	if !b.unhold(r) {
		b.mu.Unlock()
		return
	}
	b.forget(r.id)
	remembered, known := b.remembered(r.method)
	if r.list && !known {
		remembered = emptyList(r.method)
		if b.unfounded == nil {
			b.unfounded = make(map[string]bool)
		}
		b.unfounded[r.method] = true
	}
	trouble := b.trouble
	b.mu.Unlock()
	if r.list {
		b.toClient(jsonrpc.NewResult([]byte(r.id), remembered))
	} else {
		b.refuse([]byte(r.id), jsonrpc.CodeServerError, notRunning(trouble))
	}
	b.noteIdle()
}

// notRunning is the error for a request that no app was there for.
func notRunning(trouble error) string {
	if trouble != nil {
		return fmt.Sprintf("MCP Funnel cannot be reached, and so nothing was called: %v. This session need not be restarted once that is mended", trouble)
	}
	return "MCP Funnel does not run, and so nothing was called. Start it (`mcp-funnel`), then try again; this session need not be restarted"
}

func (b *bridge) noteIdle() {
	select {
	case b.idle <- struct{}{}:
	default:
	}
}
