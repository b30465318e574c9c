package upstream

import (
	"cmp"
	"context"

	"mcp-funnel/core/config"
)

// Session is a client session, as servers need to know it that have an instance for
// each session or for each project folder.
type Session interface {
	Caller
	// ID is unique in this life of the app.
	ID() string
	// Label says to people whose session it is.
	Label() string
	// Folder is the absolute path of the project that the client works in. It may ask
	// the client, and takes its time then. Its error says how to make it known.
	Folder(ctx context.Context) (string, error)
}

// Server is one configured server: an [Upstream], or one that has an instance for
// each session or project. The methods of both are documented there.
type Server interface {
	Name() string
	Run(ctx context.Context) error
	Reconnect()
	SetEnabled(on bool)
	Apply(entry config.Server)
	Check()
	Settled() <-chan struct{}
	Lists() (lists Lists, visible bool)
	LastGood() (fingerprint string, lists Lists)
	// ListsFor returns the lists that only those sessions see which use an instance with
	// this session, by its id, and the name of that instance. own is false where the
	// session sees what all do.
	ListsFor(session string) (lists Lists, instance string, own bool)

	Forward(r *Request)
	Recall(r *Request) bool
	Cancel(r *Request, params []byte) bool
	Notify(from Caller, raw []byte)
	SetLogLevel(level string)
	// Subscribe and Unsubscribe tell the server that uses from of a wish.
	Subscribe(from Session, uri string)
	Unsubscribe(from Session, uri string)
	// Shares reports whether two sessions, by their ids, use the same connection.
	Shares(one, other string) bool

	introduce()
	leave()
	// joined and left tell of client sessions; whatever else comes of one comes between.
	joined(s Session)
	left(s Session)
}

// newServer returns the server for entry, at rest.
func newServer(entry config.Server, on bool, deps Deps) Server {
	if scopeOf(entry) != config.Shared {
		return newScoped(entry, on, deps)
	}
	return New(entry, on, deps)
}

// scopeOf is the entry's scope, shared where none is known.
func scopeOf(entry config.Server) config.Scope { return cmp.Or(entry.Scope, config.Shared) }

// Shares implements [Server]: all sessions share the one connection.
func (u *Upstream) Shares(string, string) bool { return true }

// ListsFor implements [Server]: all sessions see the same.
func (u *Upstream) ListsFor(string) (lists Lists, instance string, own bool) {
	return Lists{}, "", false
}

func (u *Upstream) joined(Session) {}

func (u *Upstream) left(Session) {}
