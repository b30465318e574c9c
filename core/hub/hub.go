package hub

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"mcp-funnel/core/catalog"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
	"mcp-funnel/core/upstream"
)

// Server takes requests for one configured server; [*upstream.Upstream] is one.
type Server interface {
	Forward(r *upstream.Request)
	// Recall takes back a request that has not been sent to the server; false when
	// it has, or is not there.
	Recall(r *upstream.Request) bool
	// Notify passes a client's notification on, if the server is connected and meant.
	Notify(from upstream.Caller, raw []byte)
	// SetLogLevel, Subscribe and Unsubscribe tell the server what clients want.
	SetLogLevel(level string)
	Subscribe(from upstream.Session, uri string)
	Unsubscribe(from upstream.Session, uri string)
	Cancel(r *upstream.Request, params []byte) bool
	// Shares reports whether two sessions, by their ids, use the same connection.
	Shares(one, other string) bool
}

// Deps is what a [Hub] needs from around it.
type Deps struct {
	// Lookup finds a server by its name in the config.
	Lookup func(name string) (Server, bool)
	// Servers are all of them.
	Servers func() []Server
	// Joined and Left, if there are any, tell of sessions: once a client is there, and
	// when it has gone and all its requests are over.
	Joined, Left func(s upstream.Session)
	// Home is the user's home folder, which is no project.
	Home string
	// Ready is closed when the first lists are complete, or late enough: until
	// then tools/list is held.
	Ready <-chan struct{}
	// NameLength is the user's own limit of tool names, 0 for none.
	NameLength func() int
	// Version is that of this program.
	Version string
	// Burst is that of everybody who reads or writes lines; nil works too.
	Burst  *jsonrpc.Burst
	Board  *status.Board
	Events *status.Events
	Log    *slog.Logger
}

// Hub holds the sessions and the present catalog.
type Hub struct {
	deps Deps
	// changed has room for one token: the catalog was replaced.
	changed chan struct{}
	// landed has room for one token: while the hub is leaving, a request ended.
	landed chan struct{}

	mu sync.Mutex
	// bye is why the app is about to end; "" while it is not.
	bye     string
	catalog *catalog.Catalog
	// own are the catalogs of sessions that see another one, by their ids.
	own      map[string]*catalog.Catalog
	sessions []*session
	lastID   int
}

// New returns a hub without sessions and without tools.
func New(deps Deps) *Hub {
	return &Hub{
		deps:    deps,
		changed: make(chan struct{}, 1),
		landed:  make(chan struct{}, 1),
		catalog: catalog.New(nil, catalog.Filter{}),
	}
}

// Peer is what is known of a client before it says a word of MCP.
type Peer struct {
	// PID of the bridge and the folder its client works in.
	PID int
	CWD string
	// ProjectDir is the folder that the client itself says it works in, "" for none.
	ProjectDir string
	// Registered is the name under which the client has the funnel.
	Registered string
	// Resume is what an app last told the bridge about this session; "" at first.
	Resume string
}

// Stream is the connection to one client.
type Stream interface {
	io.Writer
	io.Closer
}

// Serve runs one session over the stream, whose reading side is r, and returns
// when the client went away, was cut off, or ctx ended. Requests still running
// are cancelled then.
func (h *Hub) Serve(ctx context.Context, id string, stream Stream, r *bufio.Reader, peer Peer) error {
	s := newSession(h, id, peer)
	h.attach(s)
	defer h.detach(s)
	return s.run(ctx, stream, r)
}

// NewID returns the id of the next session, unique in this life of the app.
func (h *Hub) NewID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastID++
	return "s" + strconv.Itoa(h.lastID)
}

func (h *Hub) attach(s *session) {
	h.mu.Lock()
	h.sessions = append(h.sessions, s)
	bye := h.bye
	h.mu.Unlock()
	if bye != "" {
		s.bye(bye)
	}
	h.deps.Board.SetSession(s.status())
}

func (h *Hub) detach(s *session) {
	h.mu.Lock()
	h.sessions = slices.DeleteFunc(h.sessions, func(other *session) bool { return other == s })
	h.mu.Unlock()
	h.noteLanding()
	if h.deps.Left != nil {
		h.deps.Left(s)
	}
	h.deps.Board.RemoveSession(s.id)
	h.deps.Events.Publish(status.Event{Name: status.EventSessionDetached, Session: s.id})
}

// Sessions returns the attached sessions with their present counts.
func (h *Hub) Sessions() []status.Session {
	list := []status.Session{}
	for _, s := range h.all() {
		list = append(list, s.status())
	}
	return list
}

func (h *Hub) all() []*session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.sessions)
}

// SetCatalog replaces what clients are shown.
func (h *Hub) SetCatalog(c *catalog.Catalog) { h.SetCatalogs(c, nil) }

// SetCatalogs replaces what clients are shown: own to the sessions with these ids, and
// c to all others.
func (h *Hub) SetCatalogs(c *catalog.Catalog, own map[string]*catalog.Catalog) {
	h.mu.Lock()
	h.catalog, h.own = c, own
	h.mu.Unlock()
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// Catalog returns what clients are shown.
func (h *Hub) Catalog() *catalog.Catalog {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.catalog
}

// catalogOf returns what a session is shown.
func (h *Hub) catalogOf(session string) *catalog.Catalog {
	h.mu.Lock()
	defer h.mu.Unlock()
	if own := h.own[session]; own != nil {
		return own
	}
	return h.catalog
}

// settleTime is how long changes of the catalog are gathered before clients are
// told: servers often come up together.
const settleTime = 50 * time.Millisecond

// Run tells clients when the list they know is no longer right, until ctx ends. It
// returns nil.
func (h *Hub) Run(ctx context.Context) error {
	for {
		select {
		case <-h.changed:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-time.After(settleTime):
		case <-ctx.Done():
			return nil
		}
		for _, s := range h.all() {
			s.listsMayDiffer()
		}
	}
}
