package endpoint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"mcp-funnel/core/hub"
	"mcp-funnel/core/status"
)

// Settings say where the endpoint is to be.
type Settings struct {
	// Listen is host:port; empty: nowhere.
	Listen string
	// AllowRemote: the address may be one that other machines reach.
	AllowRemote bool
}

// Deps is what an [Endpoint] needs from around it.
type Deps struct {
	// Serve runs one session until its client went away or ctx ended, as
	// [hub.Hub.Serve] does; NewID names the next one.
	Serve func(ctx context.Context, id string, stream hub.Stream, r *bufio.Reader, peer hub.Peer) error
	NewID func() string
	// TokenPath is the file with the token, made when it is missing.
	TokenPath string
	// Report is told how the endpoint stands whenever that changes. It must not block.
	Report func(status.HTTP)
	Log    *slog.Logger
}

// Endpoint listens where it is told to.
type Endpoint struct {
	deps   Deps
	limits limits
	// changed has room for one token: the settings may differ.
	changed chan struct{}

	mu     sync.Mutex
	wanted Settings
}

// New returns an endpoint that is nowhere yet.
func New(deps Deps) *Endpoint {
	return &Endpoint{deps: deps, limits: defaultLimits(), changed: make(chan struct{}, 1)}
}

// Set says where the endpoint is to be from now on. Where that is another place,
// sessions at the old one end.
func (e *Endpoint) Set(s Settings) {
	e.mu.Lock()
	e.wanted = s
	e.mu.Unlock()
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

func (e *Endpoint) settings() Settings {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wanted
}

// Run listens and serves as the settings say, until ctx ends. What keeps it from
// listening is reported and tried again. It returns nil.
func (e *Endpoint) Run(ctx context.Context) error {
	told := ""
	for ctx.Err() == nil {
		wanted := e.settings()
		err := e.serve(ctx, wanted)
		if err == nil {
			told = ""
			continue
		}
		e.deps.Report(status.HTTP{Listen: wanted.Listen, Error: err.Error()})
		if told != err.Error() {
			told = err.Error()
			e.deps.Log.Error("the HTTP endpoint cannot be opened; it will be tried again", "err", err)
		}
		retry := time.NewTimer(e.limits.retry)
		_ = e.wait(ctx, wanted, retry.C, nil) // nothing fails while nothing runs
		retry.Stop()
	}
	return nil
}

// wait returns when ctx ends, the settings differ, enough fires, or with what failed.
func (e *Endpoint) wait(ctx context.Context, now Settings, enough <-chan time.Time, failed <-chan error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-enough:
			return nil
		case err := <-failed:
			return err
		case <-e.changed:
			if e.settings() != now {
				return nil
			}
		}
	}
}

// serve is at one place, until ctx ends or the settings differ, and returns nil then.
func (e *Endpoint) serve(ctx context.Context, now Settings) error {
	if now.Listen == "" {
		e.deps.Report(status.HTTP{})
		return e.wait(ctx, now, nil, nil)
	}
	token, err := loadToken(e.deps.TokenPath)
	if err != nil {
		return err
	}
	listener, err := listen(ctx, now)
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	e.deps.Report(status.HTTP{Listen: address})
	e.deps.Log.Info("the HTTP endpoint is open", "listen", address)
	defer e.deps.Log.Info("the HTTP endpoint is closed", "listen", address)
	s := newServing(e.deps, e.limits, guard{token: token, remote: now.AllowRemote, names: machineNames()})
	return s.run(ctx, listener, func(ctx context.Context, failed <-chan error) error {
		return e.wait(ctx, now, nil, failed)
	})
}

// errRemote: the address is open to others, who were not invited.
var errRemote = errors.New(`other machines can reach it, and "allowRemote" is not set`)

// listen opens the address, which is checked again: a name can stand for anything.
func listen(ctx context.Context, now Settings) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", now.Listen)
	if err != nil {
		return nil, fmt.Errorf("opening the HTTP endpoint at %s: %w; is another program using the port?", now.Listen, err)
	}
	at, err := netip.ParseAddrPort(listener.Addr().String())
	if err == nil && !now.AllowRemote && !at.Addr().Unmap().IsLoopback() {
		err = errRemote
	}
	if err != nil {
		_ = listener.Close() // nobody has connected
		return nil, fmt.Errorf("opening the HTTP endpoint at %s: %w", now.Listen, err)
	}
	return listener, nil
}
