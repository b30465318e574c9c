package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"mcp-funnel/core/jsonrpc"
)

// Times of attaching.
const (
	// successorTime is how long only the successor of a replaced app is waited for,
	// before one is started.
	successorTime = 15 * time.Second
	// handshakeTime bounds the replayed handshake with an app.
	handshakeTime = 10 * time.Second
	// The pauses after attempts to attach that failed for good grow from the first to
	// the last. An app that somebody else starts meanwhile is noticed.
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// longestResume is how long the resume text of an app may be, in bytes: it has to fit
// into a hello.
const longestResume = 8 << 10

// keepAttached attaches whenever there is reason to, and carries what the app
// sends, until ctx ends.
func (b *bridge) keepAttached(ctx context.Context) {
	for {
		select {
		case <-b.need:
		case <-ctx.Done():
			return
		}
		a, reader := b.attach(ctx)
		if a == nil {
			return
		}
		b.carry(a, reader)
	}
}

// attach tries to attach until that succeeds; nil when ctx ends. Attempts to start an
// app take turns with waiting for one that somebody else starts.
func (b *bridge) attach(ctx context.Context) (*attachment, *jsonrpc.Reader) {
	pause := firstPause
	for starting := true; ; {
		// While the client does not read, an app would only fill up with what it is
		// to get.
		b.outMu.Lock()
		//nolint:staticcheck // the lock was to be waited for, no more
		b.outMu.Unlock()
		attempt := func() (*attachment, *jsonrpc.Reader, error) { return b.attachOnce(ctx, ctx, true) }
		if !starting {
			attempt = func() (*attachment, *jsonrpc.Reader, error) { return b.awaitApp(ctx, pause) }
		}
		a, reader, err := attempt()
		switch {
		case err == nil:
			return a, reader
		case ctx.Err() != nil:
			return nil, nil
		case errors.Is(err, errNoSuccessor), errors.Is(err, errLeaving): // now one may be started
			continue
		case errors.Is(err, errNobody): // why the start failed is known
		default:
			b.failed(err)
		}
		if !starting {
			pause = min(2*pause, lastPause)
		}
		starting = !starting
	}
}

// errNobody: no app came while one was waited for.
var errNobody = errors.New("no app came")

// awaitApp attaches to an app that somebody else starts during the pause. It takes the
// whole pause, unless it succeeds.
func (b *bridge) awaitApp(ctx context.Context, pause time.Duration) (*attachment, *jsonrpc.Reader, error) {
	pausing, over := context.WithCancel(ctx)
	var resting sync.WaitGroup
	defer resting.Wait()
	defer over()
	resting.Go(func() {
		b.rest(pausing, pause)
		over()
	})
	a, reader, err := b.attachOnce(ctx, pausing, false)
	if err != nil && pausing.Err() != nil {
		return nil, nil, errNobody
	}
	if err != nil {
		<-pausing.Done()
	}
	return a, reader, err
}

// rest lets the pause pass. A request that comes meanwhile shortens it, but not below
// the first pause.
func (b *bridge) rest(ctx context.Context, pause time.Duration) {
	least := time.NewTimer(firstPause)
	defer least.Stop()
	select {
	case <-least.C:
	case <-ctx.Done():
		return
	}
	rest := time.NewTimer(pause - firstPause)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-b.need:
	case <-ctx.Done():
	}
}

// failed tells, once, why attaching failed.
func (b *bridge) failed(err error) {
	b.mu.Lock()
	known := b.trouble != nil && b.trouble.Error() == err.Error()
	b.trouble = err
	b.mu.Unlock()
	if !known {
		b.log.Warn("attaching to the app failed; trying again", "err", err)
	}
}

var (
	// errNoSuccessor: an app said that it would be replaced, and was not.
	errNoSuccessor = errors.New("no other app took the place of the one that left")
	// errLeaving: the app that was reached was about to end, and has ended now.
	errLeaving = errors.New("the app was about to end")
)

// attachOnce dials, brings the app to where the client is, and sends what waited.
// dialling bounds only the dialling.
func (b *bridge) attachOnce(ctx, dialling context.Context, start bool) (*attachment, *jsonrpc.Reader, error) {
	b.mu.Lock()
	// After a quit nobody could quit if bridges started the app again.
	start = start && !b.options.NoStart && b.bye != "quit"
	successor := b.bye == "replace" && !b.awaited
	b.awaited = true
	resume := b.resume
	b.mu.Unlock()
	if successor {
		// Another app is about to take the place: one of ours would be in its way.
		start = false
		var cancel context.CancelFunc
		dialling, cancel = context.WithTimeoutCause(dialling, successorTime, errNoSuccessor)
		defer cancel()
	}
	link, err := b.options.Dial(dialling, start, resume)
	if err != nil {
		if errors.Is(context.Cause(dialling), errNoSuccessor) {
			err = errNoSuccessor
		}
		return nil, nil, err
	}
	b.mu.Lock()
	b.bye, b.awaited = "", false // what was said of an app that has gone; this one may say it, too
	b.mu.Unlock()
	a := &attachment{link: link, out: jsonrpc.NewWriter(maxBacklog, b.burst)}
	reader := jsonrpc.NewReader(link.R, 0)
	if err := b.introduce(ctx, a, reader); err != nil {
		_ = link.Close() // it is of no use; the error tells why
		if b.leaving() {
			return nil, nil, errLeaving
		}
		return nil, nil, fmt.Errorf("repeating the handshake: %w", err)
	}
	a.writing.Go(func() {
		// An app that cannot be written to is lost: wake its reader.
		_ = a.out.Run(link, 0)
		_ = link.Close()
	})
	b.adopt(ctx, a, resume != "")
	return a, reader, nil
}

// leaving reports whether the app said that it will end.
func (b *bridge) leaving() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bye != ""
}

// introduce says the client's initialize to an app. One that is about to end may not
// answer it any more: then it fails when that app has ended.
func (b *bridge) introduce(ctx context.Context, a *attachment, reader *jsonrpc.Reader) error {
	b.mu.Lock()
	greeting, id := b.greeting, b.greetingID
	b.mu.Unlock()
	if greeting == nil {
		return nil
	}
	a.introduced = true
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = a.link.Close() }) // ends the reading below
	defer stop()

	if _, err := a.link.Write(append(slices.Clip(greeting), '\n')); err != nil {
		return err
	}
	for {
		line, err := reader.Next()
		if err != nil {
			return err
		}
		if isLinkMessage(line) {
			b.fromLink(a, line)
			continue
		}
		m, err := jsonrpc.Parse(line)
		if err == nil && m.Kind == jsonrpc.Response && string(m.ID.Of(m.Raw)) == id && !b.leaving() {
			return nil // the client has its answer, from us
		}
	}
}

// adopt puts a new attachment into use: it gets what waited, in order. resumed says
// that the app was told where the session stands.
func (b *bridge) adopt(ctx context.Context, a *attachment, resumed bool) {
	b.mu.Lock()
	b.app, b.trouble = a, nil
	if !a.introduced && b.greeting != nil { // the client said it meanwhile
		b.write(&request{method: "initialize", line: b.greeting})
	}
	if b.greeted != nil {
		b.write(&request{method: "notifications/initialized", line: b.greeted})
	}
	for _, r := range b.release() {
		b.write(r)
	}
	var changed []string
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		_, known := b.lists[method]
		if b.unfounded[method] || known && (!resumed || !a.resumable) {
			// What this app lists may differ from what the client got.
			changed = append(changed, changedNotice(method))
		}
	}
	b.unfounded = nil
	b.unlock()
	if ctx.Err() != nil {
		b.detach() // the end came meanwhile and did not see this attachment
	}
	for _, notice := range slices.Compact(changed) {
		b.toClient(jsonrpc.NewNotification(notice, nil))
	}
}

// wantLink asks for an attachment. It is needed from the client's greeting on.
func (b *bridge) wantLink() {
	select {
	case b.need <- struct{}{}:
	default:
	}
}

// detach closes the attachment, if there is one.
func (b *bridge) detach() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.app != nil {
		_ = b.app.link.Close() // wakes its reader
	}
}
