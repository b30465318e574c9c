package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"mcp-funnel/core/jsonrpc"
)

// keepAttached attaches whenever there is reason to, and carries what the app
// sends, until ctx ends.
func (b *bridge) keepAttached(ctx context.Context) {
	for {
		select {
		case <-b.need:
		case <-ctx.Done():
			return
		}
		for ctx.Err() == nil {
			link, reader, err := b.attach(ctx)
			if err == nil {
				b.carry(link, reader)
				break
			}
			if ctx.Err() == nil {
				b.log.Warn("attaching to the app failed; trying again", "err", err)
			}
			select {
			case <-time.After(retryPause):
			case <-ctx.Done():
			}
		}
	}
}

// attach dials, brings a new app to where the client is, and sends what waited.
func (b *bridge) attach(ctx context.Context) (*Link, *jsonrpc.Reader, error) {
	b.mu.Lock()
	// After a quit nobody could quit if bridges started the app again.
	start := !b.options.NoStart && b.bye != "quit"
	successor := b.bye == "replace" && !b.awaited
	b.awaited = true
	b.mu.Unlock()
	dialling, cancel := ctx, context.CancelFunc(func() {})
	if successor {
		// Another app is about to take the place: one of ours would be in its way.
		start = false
		dialling, cancel = context.WithTimeout(ctx, successorTime)
	}
	link, err := b.options.Dial(dialling, start)
	cancel()
	if err != nil {
		return nil, nil, err
	}
	reader := jsonrpc.NewReader(link.R, 0)
	again, err := b.greetAgain(ctx, link, reader)
	if err != nil {
		_ = link.Close() // it is of no use; the error tells why
		return nil, nil, fmt.Errorf("repeating the handshake: %w", err)
	}
	b.current.Store(&link)
	if ctx.Err() != nil {
		b.detach() // the end came meanwhile and did not see this link
	}
	b.mu.Lock()
	b.link, b.bye, b.awaited = &link, "", false
	held := b.held
	b.held = nil
	for _, r := range held {
		if r.timer != nil {
			r.timer.Stop()
		}
		b.write(r)
	}
	b.mu.Unlock()
	b.flushToApp()
	if again {
		// What this app lists may differ from what the client got from the last.
		b.toClient(jsonrpc.NewNotification("notifications/tools/list_changed", nil))
	}
	return &link, reader, nil
}

// greetAgain says the client's handshake to an app that has not heard it; false
// when the client has not had one yet.
func (b *bridge) greetAgain(ctx context.Context, link Link, reader *jsonrpc.Reader) (bool, error) {
	b.mu.Lock()
	greeting, id, greeted, welcomed := b.greeting, b.greetingID, b.greeted, b.welcomed
	b.mu.Unlock()
	if !welcomed {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = link.Close() }) // ends the reading below
	defer stop()

	if _, err := link.Write(append(slices.Clip(greeting), '\n')); err != nil {
		return false, err
	}
	for {
		line, err := reader.Next()
		if err != nil {
			return false, err
		}
		if isLinkMessage(line) {
			b.fromLink(line)
			continue
		}
		m, err := jsonrpc.Parse(line)
		if err == nil && m.Kind == jsonrpc.Response && string(m.ID.Of(m.Raw)) == id {
			break // the client has this answer, from the first app
		}
	}
	if greeted == nil {
		return true, nil
	}
	_, err := link.Write(append(slices.Clip(greeted), '\n'))
	return true, err
}

// carry passes on what the app sends until it is gone.
func (b *bridge) carry(link *Link, reader *jsonrpc.Reader) {
	for {
		line, err := reader.Next()
		long, tooLong := errors.AsType[*jsonrpc.TooLongError](err)
		switch {
		case tooLong:
			if id := long.ID(); id != nil && b.answered(id) {
				b.refuse(id, jsonrpc.CodeInternalError, long.Error())
			}
		case err != nil:
			b.lost(link)
			return
		case reader.Cut(): // the app was killed while it wrote this
		default:
			b.fromApp(line)
		}
		if !reader.More() {
			b.flushToClient()
			b.noteIdle()
		}
	}
}

// lost answers or keeps what the app left open.
func (b *bridge) lost(link *Link) {
	_ = link.Close() // it is broken already
	b.mu.Lock()
	b.link, b.toApp = nil, jsonrpc.Batch{}
	var failed []*request
	for _, r := range b.inOrder() {
		switch {
		case !r.sent:
		case r.repeatable():
			r.sent = false
			b.hold(r)
		default:
			failed = append(failed, r)
			b.forget(r.id)
		}
	}
	b.wantLink()
	b.mu.Unlock()
	for _, r := range failed {
		b.refuse([]byte(r.id), jsonrpc.CodeServerError,
			"the connection to MCP Funnel was lost; the call may have run. It is being connected again: look, then try again")
	}
}

// inOrder returns the requests without a reply as they were asked: initialize has to
// come first again. b.mu is held.
func (b *bridge) inOrder() []*request {
	requests := slices.Collect(maps.Values(b.asked))
	slices.SortFunc(requests, func(a, b *request) int { return cmp.Compare(a.number, b.number) })
	return requests
}

// detach closes the attachment, if there is one.
func (b *bridge) detach() {
	if link := b.current.Load(); link != nil {
		_ = link.Close() // wakes its reader
	}
}
