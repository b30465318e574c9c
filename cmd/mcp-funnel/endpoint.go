package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"mcp-funnel/core"
	"mcp-funnel/core/endpoint"
	"mcp-funnel/core/status"
)

// serveHTTP runs the HTTP endpoint, which is where the config in force says, until ctx
// ends.
func (a *app) serveHTTP(ctx context.Context) error {
	board := a.funnel.Board()
	e := endpoint.New(endpoint.Deps{
		Serve:     a.funnel.ServeBridge,
		NewID:     a.funnel.NewSessionID,
		TokenPath: filepath.Join(core.StateDir(), "http-token"),
		Report:    func(now status.HTTP) { board.Update(func(s *status.Snapshot) { s.HTTP = now }) },
		Log:       a.log,
	})
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return e.Run(ctx) })
	parts.Go(func() error { a.followListen(ctx, e); return nil })
	return parts.Wait()
}

// followListen tells the endpoint of every config that comes into force: each is on the
// board before anybody can know of it.
func (a *app) followListen(ctx context.Context, e *endpoint.Endpoint) {
	board := a.funnel.Board()
	var told endpoint.Settings
	for {
		generation := board.Snapshot().Generation // before the config: no change is missed
		c := a.funnel.Config()
		now := endpoint.Settings{Listen: c.HTTPListen, AllowRemote: c.HTTPAllowRemote}
		if now != told {
			told = now
			e.Set(now)
		}
		if _, err := board.Wait(ctx, generation); err != nil {
			return
		}
	}
}

// describeEndpoint writes where the HTTP endpoint is, if the user wants one.
func describeEndpoint(b *strings.Builder, h status.HTTP) {
	switch {
	case h.Error != "":
		fmt.Fprintf(b, "HTTP:    not open: %s\n", oneLine(h.Error))
	case h.Listen != "":
		fmt.Fprintf(b, "HTTP:    http://%s/mcp\n", oneLine(h.Listen))
	}
}
