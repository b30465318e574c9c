package hub

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"mcp-funnel/core/catalog"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
	"mcp-funnel/core/upstream"
)

const (
	// maxBacklog bounds the bytes that wait for one client to read.
	maxBacklog = 64 << 20
	// stallTime is how long a client may not read at all.
	stallTime = time.Minute
	// byeTime is how long the last words to a client may take.
	byeTime = time.Second
)

// session is one attached client.
type session struct {
	hub        *Hub
	id         string
	peer       Peer
	attachedAt time.Time
	out        *jsonrpc.Writer
	// cutOff ends the session.
	cutOff context.CancelCauseFunc
	calls  atomic.Int64
	// work joins what outlives the handling of one line.
	work sync.WaitGroup

	mu      sync.Mutex
	client  status.Client
	version string
	// budget is how long tool names may be for this client.
	budget int
	// greeted: the client sent initialize, so that it may be notified.
	greeted bool
	// can is what the client declared that it can do for servers.
	can abilities
	// level is the least severe log message that the client wants, "" as servers like.
	level string
	// subscriptions are the resources that it wants to know of, by the URI it uses.
	subscriptions map[string]catalog.Route
	// folder is the project's, "" while it is not known; folders counts how often the
	// client said that it may be another one now.
	folder  string
	folders int
	// own are our own requests that the client has not answered, by our id as it is on
	// the wire.
	own map[string]chan jsonrpc.Message
	// joined: the servers know of the session.
	joined bool
	// questions of servers that it has not answered, by our id as it is on the wire;
	// lastQuestion counts them, and nonce tells them from those of another app.
	questions    map[string]*upstream.Question
	lastQuestion int
	nonce        string
	// elicitations are the ids of those that go on out of band.
	elicitations map[string]bool
	// resumed is what outlives this attachment; told is what the bridge has of it.
	resumed resume
	told    string
	// leaving: the app makes way for another; what is not begun is handed back.
	leaving bool
	// flights are the requests without a reply, by the client's id as it is on
	// the wire.
	flights map[string]*flight
}

// flight is a request that a server has.
type flight struct {
	request *upstream.Request
	server  Server
	// landed, if there is one, is told whether the reply is a result, before the client
	// gets it.
	landed func(ok bool)
}

func newSession(h *Hub, id string, peer Peer) *session {
	return &session{
		hub:        h,
		id:         id,
		peer:       peer,
		attachedAt: time.Now(),
		out:        jsonrpc.NewWriter(maxBacklog, h.deps.Burst),
		budget:     catalog.Budget("", peer.Registered, h.deps.NameLength()),
		flights:    make(map[string]*flight),
		resumed:    parseResume(peer.Resume),
		told:       peer.Resume,

		subscriptions: make(map[string]catalog.Route),
		own:           make(map[string]chan jsonrpc.Message),
		questions:     make(map[string]*upstream.Question),
		nonce:         rand.Text()[:8],
		elicitations:  make(map[string]bool),
	}
}

// errGone is the end of a session whose client closed the stream.
var errGone = errors.New("the client went away")

// run reads until the stream or ctx ends.
func (s *session) run(ctx context.Context, stream Stream, r *bufio.Reader) error {
	ctx, s.cutOff = context.WithCancelCause(ctx)
	defer s.work.Wait()
	defer s.cutOff(errGone)
	defer s.abandon()

	written := make(chan struct{})
	s.work.Go(func() {
		defer close(written)
		// A client that cannot be written to is gone.
		s.cutOff(s.out.Run(stream, stallTime))
	})
	s.work.Go(func() {
		<-ctx.Done()
		s.out.Close() // what is queued is still written, the bye above all
		select {
		case <-written:
		case <-time.After(byeTime):
		}
		_ = stream.Close() // ends the reading below; there is nothing to lose any more
	})

	reader := jsonrpc.NewReader(r, 0)
	err := s.hub.deps.Burst.Lines(reader, func() error {
		line, err := reader.Read()
		long, tooLong := errors.AsType[*jsonrpc.TooLongError](err)
		switch {
		case tooLong:
			s.refuse(long.ID(), jsonrpc.CodeInvalidRequest, long.Error())
		case err != nil:
			return err
		default:
			s.handle(ctx, line)
		}
		return nil
	})
	return s.ended(ctx, err)
}

// ended says why the session is over, given how reading ended.
func (s *session) ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("reading from a client: %w", err)
}

// abandon cancels the requests that are still running: nobody waits for them.
func (s *session) abandon() {
	s.mu.Lock()
	flights := s.flights
	s.flights = make(map[string]*flight)
	s.mu.Unlock()
	for _, f := range flights {
		f.server.Cancel(f.request, nil)
	}
	s.refuseQuestions()
	s.unsubscribeAll()
}

// send queues a line for the client, which becomes the queue's own.
func (s *session) send(line []byte) {
	if err := s.out.Write(line); errors.Is(err, jsonrpc.ErrBacklog) {
		s.cutOff(fmt.Errorf("a client does not read: %d MiB wait for it", maxBacklog>>20))
	}
}

func (s *session) refuse(id []byte, code int, message string) {
	s.send(jsonrpc.NewError(id, &jsonrpc.Error{Code: code, Message: message}))
}

// handle takes one line from the client.
func (s *session) handle(ctx context.Context, line []byte) {
	m, err := jsonrpc.Parse(line)
	if err != nil {
		s.send(jsonrpc.NewRefusal(err))
		return
	}
	switch m.Kind {
	case jsonrpc.Request:
		if s.handsBack(m) {
			return
		}
		s.request(ctx, m)
	case jsonrpc.Notification:
		s.notified(m)
	case jsonrpc.Response:
		s.answered(m)
	}
}

// takeOff notes a flight under the client's id; false when the id is taken.
func (s *session) takeOff(id []byte, f *flight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.flights[string(id)]; taken {
		return false
	}
	s.flights[string(id)] = f
	return true
}

// land removes the flight of r and reports whether it was still there. Who gets
// true replies.
func (s *session) land(r *upstream.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.landLocked(r)
}

func (s *session) landLocked(r *upstream.Request) bool {
	id := r.Message.ID.Of(r.Message.Raw)
	f, ok := s.flights[string(id)]
	if !ok || f.request != r {
		return false
	}
	delete(s.flights, string(id))
	s.hub.noteLanding()
	return true
}

// Reply implements [upstream.Caller]. Reply and Progress queue under the lock, so that
// no progress follows its reply.
func (s *session) Reply(r *upstream.Request, reply []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flights[string(r.Message.ID.Of(r.Message.Raw))]
	if !s.landLocked(r) {
		return
	}
	if f.landed != nil {
		f.landed(isResult(reply))
	}
	s.send(reply)
}

// Progress implements [upstream.Caller].
func (s *session) Progress(r *upstream.Request, notification []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, flying := s.flights[string(r.Message.ID.Of(r.Message.Raw))]; flying && f.request == r {
		s.send(notification)
	}
}

// cancelled withdraws a request of the client, which gets no reply then.
func (s *session) cancelled(m jsonrpc.Message) {
	span, ok := jsonrpc.Lookup(m.Raw, m.Params, "requestId")
	if !ok {
		return
	}
	s.mu.Lock()
	f, flying := s.flights[string(span.Of(m.Raw))]
	delete(s.flights, string(span.Of(m.Raw)))
	s.mu.Unlock()
	s.hub.noteLanding()
	if flying {
		f.server.Cancel(f.request, m.Params.Of(m.Raw))
	}
}

// view is the catalog as this client sees it.
func (s *session) view() *catalog.View {
	s.mu.Lock()
	budget := s.budget
	s.mu.Unlock()
	return s.hub.catalogOf(s.id).View(budget)
}

func (s *session) status() status.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return status.Session{
		ID:              s.id,
		Client:          s.client,
		PID:             s.peer.PID,
		CWD:             s.peer.CWD,
		ProtocolVersion: s.version,
		AttachedAt:      status.At(s.attachedAt),
		Calls:           s.calls.Load(),
	}
}
