package core

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"golang.org/x/sync/errgroup"

	"mcp-funnel/core/catalog"
	"mcp-funnel/core/config"
	"mcp-funnel/core/filewatch"
	"mcp-funnel/core/hub"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
	"mcp-funnel/core/upstream"
)

// Options says where a [Funnel] lives and what it works with.
type Options struct {
	// ConfigPath is the user's config file; BasePath one that is read below it, or "".
	ConfigPath, BasePath string
	// RuntimeDir holds children.json; StateDir state.json and the logs.
	RuntimeDir, StateDir string
	// Home is the user's home folder.
	Home string
	// Environ is the environment of this process. WholeLogin: take that of the
	// user's login shell instead, because a client's bridge started the app.
	Environ    []string
	WholeLogin bool
	Version    string
	// Mode says how the app runs, "tray" or "headless".
	Mode func() string
	// Quit ends the app; reason is "quit" or "replace". It must not block.
	Quit func(reason string)
	Log  *slog.Logger
}

// Funnel is the one object that owns the configuration, the servers, the sessions
// and the board.
type Funnel struct {
	options Options
	log     *slog.Logger
	started time.Time

	board       *status.Board
	events      *status.Events
	environment *environment
	state       *state
	memory      *memory
	told        *instructions
	logs        *serverLogs
	custody     *upstream.Custody
	watcher     *filewatch.Watcher
	http        *http.Client
	supervisor  *upstream.Supervisor
	hub         *hub.Hub
	// ready is closed when the first lists are there, or late enough.
	ready chan struct{}
	// toolsChanged has room for one token.
	toolsChanged chan struct{}

	// reloading admits one reload at a time, which may take a moment.
	reloading sync.Mutex

	mu sync.Mutex
	// config is the last good one; loadError why the present file is not it.
	config    *config.Config
	loadError error
}

// eventsKept is how many events a late or slow reader can still get.
const eventsKept = 1000

// New reads the configuration and builds a funnel at rest. A configuration that
// cannot be read is no error: [Funnel.ConfigError] tells, and the funnel waits for
// the fix.
func New(o Options) *Funnel {
	f := &Funnel{
		options:      o,
		log:          o.Log,
		started:      time.Now(),
		board:        status.NewBoard(),
		events:       status.NewEvents(eventsKept, nil),
		environment:  newEnvironment(o.Environ, o.WholeLogin, o.Log),
		state:        openState(filepath.Join(o.StateDir, "state.json")),
		memory:       openMemory(filepath.Join(o.StateDir, "catalog.json"), o.Log),
		told:         openInstructions(o.StateDir, o.Log),
		logs:         newServerLogs(o.StateDir),
		custody:      upstream.OpenCustody(filepath.Join(o.RuntimeDir, "children.json"), o.Log),
		http:         upstream.NewHTTPClient(),
		ready:        make(chan struct{}),
		toolsChanged: make(chan struct{}, 1),
		config:       &config.Config{Path: o.ConfigPath},
	}
	paths := []string{o.ConfigPath}
	if o.BasePath != "" {
		paths = append(paths, o.BasePath)
	}
	f.watcher = filewatch.New(paths, filewatch.Options{Settle: configSettle, AtMost: configAtMost, Log: o.Log}) // before the file is read: no edit is missed
	burst := new(jsonrpc.Burst)
	launcher := &upstream.Launcher{
		Environment: f.environment.wait,
		Home:        o.Home,
		OpenLog:     f.logs.of,
		Custody:     f.custody,
		HTTP:        f.http,
		Burst:       burst,
		Log:         o.Log,
	}
	f.supervisor = upstream.NewSupervisor(upstream.Deps{
		Open:       launcher.Open,
		Self:       mcp.Implementation{Name: "mcp-funnel", Version: o.Version},
		Board:      f.board,
		Events:     f.events,
		Remembered: f.memory.lists,
		Changed:    f.noteTools,
		News:       func(server string, m jsonrpc.Message) { f.hub.News(server, m) },
		Wanted:     func(server string) ([]string, string) { return f.hub.Wanted(server) },
		Note:       f.logs.note,
		Log:        o.Log,
		Random:     rand.Float64,
	})
	f.hub = hub.New(hub.Deps{
		Lookup:     f.lookup,
		Servers:    f.servers,
		Ready:      f.ready,
		NameLength: func() int { return f.Config().NameMaxLength },
		Version:    o.Version,
		Burst:      burst,
		Board:      f.board,
		Events:     f.events,
		Log:        o.Log,
	})
	if f.state.broken != nil {
		f.log.Warn("the record of switched-off servers cannot be used", "err", f.state.broken)
	}
	if !o.WholeLogin { // else its variables are not known yet
		// The error stays on the board and in ConfigError.
		_, _ = f.Reload()
	}
	return f
}

// Board is the picture of everything, for those who show it.
func (f *Funnel) Board() *status.Board { return f.board }

// Events are the things that happen, for those who follow them.
func (f *Funnel) Events() *status.Events { return f.events }

// Config is the configuration in force.
func (f *Funnel) Config() *config.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.config
}

// ConfigError is why the config file as it is now is not in force, nil when it is.
func (f *Funnel) ConfigError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loadError
}

// lookup lends the hub a server.
func (f *Funnel) lookup(name string) (hub.Server, bool) {
	u, ok := f.supervisor.Lookup(name)
	return u, ok
}

// servers lends the hub all of them.
func (f *Funnel) servers() []hub.Server {
	var list []hub.Server
	for _, u := range f.supervisor.Upstreams() {
		list = append(list, u)
	}
	return list
}

func (f *Funnel) noteTools() {
	select {
	case f.toolsChanged <- struct{}{}:
	default:
	}
}

// firstListHold is how long the very first lists may be held for servers that are
// still starting. Those that are up have to be usable within 3 s of the start of the
// app, which takes its time as well.
const firstListHold = 2 * time.Second

// Run starts everything and keeps it going until ctx ends; it returns when every
// server is stopped.
func (f *Funnel) Run(ctx context.Context) error {
	defer f.logs.close()
	defer f.http.CloseIdleConnections()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { f.environment.ask(ctx); return f.afterLogin(ctx) })
	g.Go(func() error { f.custody.Sweep(ctx); return nil })
	g.Go(func() error { return f.supervisor.Run(ctx) })
	g.Go(func() error { return f.hub.Run(ctx) })
	g.Go(func() error { return f.mergeTools(ctx) })
	g.Go(func() error { return f.watchConfig(ctx) })
	g.Go(func() error { f.becomeReady(ctx); return nil })
	g.Go(func() error { return f.watchMachine(ctx) })
	return g.Wait()
}

// afterLogin reads the config again: with the variables of a login it may say something
// else.
func (f *Funnel) afterLogin(ctx context.Context) error {
	if f.options.WholeLogin && ctx.Err() == nil {
		_, _ = f.Reload() // the error is on the board
	}
	return nil
}

// becomeReady waits for the first lists, not for long. An app that a bridge started
// reads its config only here, when the variables of the login are known; if they came
// late it is read again then.
func (f *Funnel) becomeReady(ctx context.Context) {
	if f.options.WholeLogin {
		f.environment.wait(ctx)
		_, _ = f.Reload() // the error is on the board
	}
	ctx, cancel := context.WithTimeout(ctx, firstListHold)
	defer cancel()
	f.supervisor.Settle(ctx)
	f.merge()
	close(f.ready)
}

// mergeTools makes a new catalog whenever a server's tools changed, and remembers
// them.
func (f *Funnel) mergeTools(ctx context.Context) error {
	for {
		select {
		case <-f.toolsChanged:
			f.merge()
		case <-ctx.Done():
			return nil
		}
	}
}

// merge makes the catalog out of what the servers have now.
func (f *Funnel) merge() {
	f.reloading.Lock() // so that an older catalog never replaces a newer one
	defer f.reloading.Unlock()
	f.mergeLocked()
}

func (f *Funnel) mergeLocked() {
	c := f.Config()
	prefixes := make(map[string]string, len(c.Servers))
	for _, s := range c.Servers {
		prefixes[s.Name] = s.Prefix
	}
	var sources []catalog.Source
	for _, u := range f.supervisor.Upstreams() {
		if lists, visible := u.Lists(); visible {
			sources = append(sources, catalog.Source{
				Server: u.Name(), Prefix: prefixes[u.Name()], Tools: lists.Tools, Prompts: lists.Prompts,
				Resources: lists.Resources, Templates: lists.Templates, Instructions: lists.Instructions,
			})
		}
	}
	f.memory.keep(f.supervisor.Upstreams())
	merged := catalog.New(sources, catalog.Filter{Expose: c.ExposeTools, Hide: c.HideTools})
	f.told.keep(merged.Instructions())
	f.hub.SetCatalog(merged)
	exposed := len(merged.View(catalog.Budget("", "", c.NameMaxLength)).Entries)
	f.board.Update(func(s *status.Snapshot) { s.ExposedTools = exposed })
}

// ServeBridge serves one MCP client over a stream; see [hub.Hub.Serve].
func (f *Funnel) ServeBridge(ctx context.Context, id string, stream hub.Stream, r *bufio.Reader, peer hub.Peer) error {
	return f.hub.Serve(ctx, id, stream, r, peer)
}

// NewSessionID returns an id for [Funnel.ServeBridge].
func (f *Funnel) NewSessionID() string { return f.hub.NewID() }

// Bye tells all attached bridges why the app is about to end, and takes no new
// requests when another one is to take its place.
func (f *Funnel) Bye(reason string) { f.hub.Bye(reason) }

// Drain waits until no client's request is running any more, or ctx ends.
func (f *Funnel) Drain(ctx context.Context) { f.hub.Drain(ctx) }

// UnknownServerError is about a name that is not in the config.
type UnknownServerError struct {
	Name  string
	Known []string
}

func (e *UnknownServerError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("there is no server %q: none is configured", e.Name)
	}
	return fmt.Sprintf("there is no server %q; there are %s", e.Name, strings.Join(e.Known, ", "))
}

// OffError is about a server that cannot be reconnected because it is not to run.
type OffError struct {
	Name, Why string
}

func (e *OffError) Error() string { return fmt.Sprintf("server %q %s", e.Name, e.Why) }

func (f *Funnel) find(name string) (*upstream.Upstream, error) {
	if u, ok := f.supervisor.Lookup(name); ok {
		return u, nil
	}
	e := &UnknownServerError{Name: name}
	for _, u := range f.supervisor.Upstreams() {
		e.Known = append(e.Known, u.Name())
	}
	return nil, e
}

// Reconnect stops and starts a server now, a connected one too. It fails with an
// [*UnknownServerError] or an [*OffError].
func (f *Funnel) Reconnect(_ context.Context, name string) error {
	u, err := f.find(name)
	if err != nil {
		return err
	}
	if s, ok := f.board.Snapshot().Server(name); ok {
		switch s.State {
		case status.Disabled:
			return &OffError{Name: name, Why: "is switched off; enable it first"}
		case status.Invalid:
			return &OffError{Name: name, Why: "has a wrong entry in the config: " + s.LastError}
		case status.Idle, status.Connecting, status.Connected, status.Reconnecting, status.SlowProbe, status.NeedsAuth:
		}
	}
	u.Reconnect()
	return nil
}

// ReconnectAll reconnects every server that is to run.
func (f *Funnel) ReconnectAll(ctx context.Context) error {
	_, err := f.reconnectAll(ctx)
	return err
}

func (f *Funnel) reconnectAll(ctx context.Context) ([]string, error) {
	names := []string{}
	for _, u := range f.supervisor.Upstreams() {
		err := f.Reconnect(ctx, u.Name())
		var off *OffError
		var unknown *UnknownServerError
		switch {
		case errors.As(err, &off), errors.As(err, &unknown): // taken out just now
		case err != nil:
			return names, err
		default:
			names = append(names, u.Name())
		}
	}
	return names, nil
}

// SetEnabled switches a server on or off and keeps that over restarts. A server
// that the config itself has disabled cannot be switched on here.
func (f *Funnel) SetEnabled(_ context.Context, name string, on bool) error {
	u, err := f.find(name)
	if err != nil {
		return err
	}
	for _, entry := range f.Config().Servers {
		if entry.Name == name && !entry.Enabled && on {
			return &OffError{Name: name, Why: "is disabled in the config; set \"enabled\": true there"}
		}
	}
	if err := f.state.setDisabled(name, !on); err != nil {
		return err
	}
	u.SetEnabled(on)
	return nil
}

// Quit ends the app.
func (f *Funnel) Quit() { f.options.Quit("quit") }
