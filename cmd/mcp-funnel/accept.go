package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"mcp-funnel/core/hub"
	"mcp-funnel/core/status"
	"mcp-funnel/singleton"
)

// acceptPause is how long nothing is accepted after that failed.
const acceptPause = 100 * time.Millisecond

// mostStrangers bounds the connections that have not said yet who they are. Each has
// a few seconds for that; the next ones wait to be accepted.
const mostStrangers = 128

// accept takes connections until ctx ends, and joins them all. Nothing else ends it:
// without it nobody reaches the app any more.
func (a *app) accept(ctx context.Context, listener net.Listener) error {
	var connections sync.WaitGroup
	defer connections.Wait()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() }) // ends the accepting below
	defer stop()
	strangers := make(chan struct{}, mostStrangers)
	for failing := false; ; {
		select {
		case strangers <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		c, err := listener.Accept()
		if err != nil {
			<-strangers
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			if !failing {
				a.log.Error("accepting a connection failed; trying again", "err", err)
			}
			failing = true
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
			continue
		}
		failing = false
		connections.Go(func() {
			if err := a.connection(ctx, c, func() { <-strangers }); err != nil && ctx.Err() == nil {
				a.log.Debug("a connection ended", "err", err)
			}
		})
	}
}

// connection serves one connection for its whole life. It calls introduced once it is
// known who that is, or that it will not be.
func (a *app) connection(ctx context.Context, c net.Conn, introduced func()) error {
	defer func() { _ = c.Close() }() // mostly closed already
	conn, hello, err := singleton.Accept(ctx, c)
	introduced()
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
		CWD: cmp.Or(hello.Env["CLAUDE_PROJECT_DIR"], hello.CWD),
	}
	return a.funnel.ServeBridge(ctx, welcome.Session, conn, conn.R, peer)
}

// noTray notes on the board why there is no icon.
func noTray(why error) func(*status.Snapshot) {
	return func(s *status.Snapshot) { s.Tray = status.Tray{Reason: why.Error()} }
}
