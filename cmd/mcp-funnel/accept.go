package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"

	"mcp-funnel/core/hub"
	"mcp-funnel/core/status"
	"mcp-funnel/singleton"
)

// accept takes connections until ctx ends, and joins them all.
func (a *app) accept(ctx context.Context, listener net.Listener) error {
	var connections sync.WaitGroup
	defer connections.Wait()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() }) // ends the accepting below
	defer stop()
	for {
		c, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		connections.Go(func() {
			if err := a.connection(ctx, c); err != nil && ctx.Err() == nil {
				a.log.Debug("a connection ended", "err", err)
			}
		})
	}
}

// connection serves one connection for its whole life.
func (a *app) connection(ctx context.Context, c net.Conn) error {
	defer func() { _ = c.Close() }() // mostly closed already
	conn, hello, err := singleton.Accept(ctx, c)
	if err != nil {
		return err
	}
	welcome := singleton.Welcome{Protocol: singleton.Protocol, Version: buildVersion(), Mode: *a.mode.Load()}
	if hello.Role == singleton.RoleControl {
		if err := conn.Welcome(welcome); err != nil {
			return err
		}
		return a.funnel.ServeControl(ctx, conn, conn.R)
	}
	welcome.Session = a.funnel.NewSessionID()
	if err := conn.Welcome(welcome); err != nil {
		return err
	}
	peer := hub.Peer{
		PID: hello.PID, Registered: hello.Name, Resume: hello.Resume,
		CWD: cmp.Or(hello.Env["CLAUDE_PROJECT_DIR"], hello.CWD), ProjectDir: hello.Env["CLAUDE_PROJECT_DIR"],
	}
	return a.funnel.ServeBridge(ctx, welcome.Session, conn, conn.R, peer)
}

// noTray notes on the board why there is no icon.
func noTray(why error) func(*status.Snapshot) {
	return func(s *status.Snapshot) { s.Tray = status.Tray{Reason: why.Error()} }
}
