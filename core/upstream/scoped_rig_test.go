package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/config"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

// fakeSession is a client session in a folder.
type fakeSession struct {
	*inbox
	id, folder string
	wait       time.Duration // until it tells the folder
	asked      chan *Question
}

func newSessionIn(id, folder string) *fakeSession {
	return &fakeSession{inbox: &inbox{replies: make(chan string, 1000)}, id: id, folder: folder, asked: make(chan *Question, 100)}
}

func (s *fakeSession) ID() string      { return s.id }
func (s *fakeSession) Label() string   { return "client" }
func (s *fakeSession) Ask(q *Question) { s.asked <- q }

func (s *fakeSession) Folder(ctx context.Context) (string, error) {
	if s.wait > 0 {
		select {
		case <-time.After(s.wait):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	if s.folder == "" {
		return "", errors.New("has no folder for this client")
	}
	return s.folder, nil
}

// scopedRig runs a supervisor over one server of fake transports in a bubble.
type scopedRig struct {
	t          *testing.T
	supervisor *Supervisor
	board      *status.Board
	entry      config.Server
	cancel     context.CancelFunc
	done       chan struct{}
	// remembered are the lists of an earlier life.
	remembered Lists
	changes    int
	// closing is how long a connection takes to close.
	closing time.Duration

	mu     sync.Mutex
	opened []*openedInstance
	news   []string
}

// openedInstance is one connection that was opened, and with which entry.
type openedInstance struct {
	*fakeTransport
	entry   config.Server
	closing time.Duration
	// sending, if there is one, is called with each message before it is sent.
	sending func(m jsonrpc.Message)
}

func (o *openedInstance) Send(m jsonrpc.Message) (place int, err error) {
	if o.sending != nil {
		o.sending(m)
	}
	return o.fakeTransport.Send(m)
}

func (o *openedInstance) Close() {
	<-time.After(o.closing)
	o.fakeTransport.Close()
}

// toolBy answers the handshake, lists one tool named like the folder, and echoes calls.
func toolBy(folder string) func(*fakeTransport, jsonrpc.Message) []byte {
	return func(f *fakeTransport, m jsonrpc.Message) []byte {
		id := m.ID.Of(m.Raw)
		switch m.MethodName() {
		case "initialize":
			return jsonrpc.NewResult(id, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"f","version":"1"}}`))
		case "tools/list":
			return jsonrpc.NewResult(id, []byte(`{"tools":[{"name":"x"}]}`))
		case "tools/call":
			if strings.Contains(string(m.Raw), `"hang"`) {
				return nil
			}
			return jsonrpc.NewResult(id, jsonrpc.Quote(folder))
		default:
			return healthy(f, m)
		}
	}
}

func newScopedRig(t *testing.T, change func(*scopedRig)) *scopedRig {
	t.Helper()
	r := &scopedRig{t: t, board: status.NewBoard(), done: make(chan struct{}), entry: config.Server{
		Name: "s", Type: config.HTTP, Enabled: true, StartupTimeout: time.Minute, Scope: config.PerProject,
		IdleTimeout: 5 * time.Minute, MaxInstances: 20, Reconnect: testPolicy(),
	}}
	if change != nil {
		change(r)
	}
	r.supervisor = NewSupervisor(Deps{
		Open: func(entry config.Server) Opener {
			return func(context.Context) (Transport, error) {
				r.mu.Lock()
				defer r.mu.Unlock()
				for _, o := range r.opened {
					if r.entry.Scope == config.PerProject && o.entry.Cwd == entry.Cwd && !o.isClosed() {
						t.Errorf("invariant 3: a second one in %s", entry.Cwd)
					}
				}
				o := &openedInstance{fakeTransport: newFakeTransport(toolBy(entry.Cwd)), entry: entry, closing: r.closing}
				r.opened = append(r.opened, o)
				return o, nil
			}
		},
		Self: mcp.Implementation{Name: "t", Version: "1"}, Board: r.board, Events: status.NewEvents(1000, nil),
		Remembered: func(config.Server) Lists { return r.remembered },
		News:       func(string, jsonrpc.Message) { t.Error("news for everybody") },
		Wanted:     func(string) ([]string, string) { t.Error("wishes of everybody"); return nil, "" },
		NewsFor: func(_ string, sessions []string, m jsonrpc.Message) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.news = append(r.news, fmt.Sprint(sessions, m.MethodName()))
		},
		WantedBy: func(string, []string) ([]string, string) { return nil, "" },
		Changed:  func() { r.mu.Lock(); defer r.mu.Unlock(); r.changes++ },
		Log:      slog.New(slog.DiscardHandler), Random: half,
	})
	r.apply()
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { defer close(r.done); _ = r.supervisor.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-r.done })
	synctest.Wait()
	return r
}

func (r *scopedRig) apply() {
	r.supervisor.Apply([]config.Server{r.entry}, func(string) bool { return false })
}

func (r *scopedRig) server() Server {
	r.t.Helper()
	s, ok := r.supervisor.Lookup("s")
	if !ok {
		r.t.Fatal("no server")
	}
	return s
}

func (r *scopedRig) shown() status.Server {
	s, _ := r.board.Snapshot().Server("s")
	return s
}

// living are the folders of the connections that are open.
func (r *scopedRig) living() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	folders := []string{}
	for _, o := range r.opened {
		if !o.isClosed() {
			folders = append(folders, o.entry.Cwd)
		}
	}
	slices.Sort(folders)
	return folders
}

// last is the connection that was opened last.
func (r *scopedRig) last() *openedInstance {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opened[len(r.opened)-1]
}

// call calls a tool and does not wait for the reply.
func (r *scopedRig) call(s *fakeSession, tool string) *Request {
	r.t.Helper()
	q := request(r.t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`, s)
	q.From = s
	r.server().Forward(q)
	return q
}

// answered calls a tool and returns the reply.
func (r *scopedRig) answered(s *fakeSession) string {
	r.t.Helper()
	r.call(s, "x")
	return s.inbox.wait(r.t)
}

// wantLiving compares the folders of the open connections.
func (r *scopedRig) wantLiving(folders ...string) {
	r.t.Helper()
	if diff := cmp.Diff(append([]string{}, folders...), r.living()); diff != "" {
		r.t.Errorf("instances: %s", diff)
	}
}

// folders makes real folders, which have one name only.
func folders(t *testing.T, n int) []string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for i := range n {
		list = append(list, filepath.Join(root, fmt.Sprint("p", i)))
		if err := os.Mkdir(list[i], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// inScoped runs a test in a bubble.
func inScoped(t *testing.T, change func(*scopedRig), test func(*testing.T, *scopedRig, []string)) {
	t.Helper()
	dirs := folders(t, 3)
	synctest.Test(t, func(t *testing.T) { test(t, newScopedRig(t, change), dirs) })
}
