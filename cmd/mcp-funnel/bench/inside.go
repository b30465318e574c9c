package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"mcp-funnel/core"
	"mcp-funnel/core/bridge"
	"mcp-funnel/core/hub"
)

// inside is an app and a bridge within this process, joined by a socket as usual,
// so that what they allocate can be counted, and profiled. The server is a process.
type inside struct {
	client *client
	stop   context.CancelFunc
	work   sync.WaitGroup
	errs   chan error
}

// openInside starts the two and waits until the tools are listed.
func openInside(ctx context.Context, p *place, tools int) (*inside, error) {
	path, err := p.config(tools)
	if err != nil {
		return nil, err
	}
	socket, err := net.Listen("unix", filepath.Join(p.dir, "run", "inside.sock"))
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	in := &inside{stop: cancel, errs: make(chan error, 3)}
	in.runApp(ctx, p, path, socket)
	if err := in.runBridge(ctx, socket.Addr().String()); err != nil {
		return nil, errors.Join(err, in.close())
	}
	if err := in.client.open(); err != nil {
		return nil, errors.Join(err, in.close())
	}
	return in, nil
}

// runApp runs a funnel for one client.
func (in *inside) runApp(ctx context.Context, p *place, config string, socket net.Listener) {
	funnel := core.New(core.Options{
		ConfigPath: config, RuntimeDir: p.dir, StateDir: filepath.Join(p.dir, "state"), Home: p.dir,
		Environ: p.environ, Version: "bench", Mode: func() string { return "headless" }, Quit: func(string) {},
		Log: slog.New(slog.DiscardHandler),
	})
	in.work.Go(func() { in.errs <- funnel.Run(ctx) })
	in.work.Go(func() {
		defer func() { _ = socket.Close() }() // nothing is waiting for it
		c, err := socket.Accept()
		if err != nil {
			in.errs <- err
			return
		}
		in.errs <- funnel.ServeBridge(ctx, funnel.NewSessionID(), c, bufio.NewReader(c), hub.Peer{})
	})
}

// runBridge runs a bridge between two pipes and the socket, and a client at its other
// end.
func (in *inside) runBridge(ctx context.Context, socket string) error {
	requests, toBridge, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	answers, fromBridge, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	in.client = newClient(toBridge, answers)
	in.work.Go(func() {
		in.errs <- bridge.Run(ctx, bridge.Options{
			In: requests, Out: fromBridge, Log: slog.New(slog.DiscardHandler),
			Dial: func(context.Context, bool, string) (bridge.Link, error) {
				c, err := net.Dial("unix", socket)
				return bridge.Link{WriteCloser: c, R: bufio.NewReader(c)}, err
			},
		})
		_ = fromBridge.Close() // the client sees the end
	})
	return nil
}

// close ends and joins everything.
func (in *inside) close() error {
	var errs []error
	if in.client != nil {
		errs = append(errs, in.client.close())
	}
	in.stop()
	in.work.Wait()
	for range len(in.errs) {
		errs = append(errs, <-in.errs)
	}
	return errors.Join(errs...)
}

// countedCalls is over how many calls allocations are counted.
const countedCalls = 5000

// measureAllocations counts what bridge and app allocate for a call.
func measureAllocations(ctx context.Context, p *place, t *table) (err error) {
	in, err := openInside(ctx, p, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	r := newRequest(0, "tools/call", `"name":"bench__small","arguments":{"message":"hello, world"},`)
	var before, after runtime.MemStats
	for range 2 { // the first time warms up
		runtime.ReadMemStats(&before)
		for range countedCalls {
			if err := in.client.call(0, r, 1); err != nil {
				return err
			}
		}
		runtime.ReadMemStats(&after)
	}
	count := float64(after.Mallocs-before.Mallocs) / countedCalls
	bytes := float64(after.TotalAlloc-before.TotalAlloc) / countedCalls
	t.add("allocations a call, bridge and app", fmt.Sprintf("%.1f (%.0f B)", count, bytes), "≤ 15", count <= 15)
	return nil
}
