//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"mcp-funnel/cmd/mcp-funnel/e2e/parts"
	"mcp-funnel/core/status"
)

// realFaults are those of servers that others wrote.
func realFaults() []fault {
	return []fault{
		{name: "real/npx killed", did: "kill -9 of `npx -y @modelcontextprotocol/server-everything`, which leaves its Node", long: true, play: npxKilled},
		{name: "real/http restarted", did: "go-sdk's everything server over HTTP restarted between two calls", long: true, play: realRestarted},
		{name: "real/http stopped", did: "the same stopped until slow probe and started again, then a call", long: true, play: realStopped},
	}
}

// toolOfEverything is a tool that both of these servers have by other names.
const (
	npxTool  = "one__echo"
	httpTool = "one__greet"
)

func npxKilled(ctx context.Context, t *trial) error {
	server := parts.NPXServer()
	for _, p := range []parts.Part{parts.Node(), server} {
		if err := p.Fetch(os.Stderr); err != nil {
			if errors.Is(err, exec.ErrNotFound) {
				return skip("%v", err)
			}
			return err
		}
	}
	t.setenv("PATH", filepath.Dir(parts.NodeProgram())+":"+os.Getenv("PATH"))
	client, before, err := t.startOne(ctx, entry{
		Command: "npx", Args: []string{"-y", parts.Everything}, Reconnect: quick(),
		Env: map[string]string{"npm_config_cache": server.Dir(), "npm_config_offline": "true", "npm_config_update_notifier": "false"},
	})
	if err != nil {
		return err
	}
	// With that to do Node does not end when its input does.
	if _, err := client.call(ctx, "one__toggle-simulated-logging"); err != nil {
		return err
	}
	tree := t.children(before.PID)
	t.check(len(tree) > 0, "npx has started nothing")
	back, err := t.breakIdle(ctx, "one", before.PID)
	if err != nil {
		return err
	}
	for _, p := range tree {
		t.check(!alive(p.pid), "of the killed server, beside the new one: %s", p)
	}
	t.check(back.PID != before.PID, "it still is the killed server")
	t.remark("its %d other processes ended as well", len(tree))
	_, err = client.callWith(ctx, npxTool, `{"message":"hello"}`)
	return err
}

// realServer is go-sdk's example on a port of loopback.
type realServer struct {
	program, address string
	cmd              *exec.Cmd
}

// newRealServer builds the server from the module cache and starts it.
func (t *trial) newRealServer(ctx context.Context) (*realServer, error) {
	s := &realServer{program: t.path("everything")}
	build := exec.CommandContext(ctx, "go", "build", "-o", s.program, "github.com/modelcontextprotocol/go-sdk/examples/server/everything")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, skip("building go-sdk's server, which works in this project's folder only: %v: %s", err, bytes.TrimSpace(out))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("finding a port: %w", err)
	}
	s.address = listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, fmt.Errorf("finding a port: %w", err)
	}
	t.cleanup(s.stop)
	return s, s.start(ctx)
}

// start returns when the server takes connections.
func (s *realServer) start(ctx context.Context) error {
	// Not of the sandbox's mark: it is not the app's to end.
	s.cmd = exec.Command(s.program, "-http", s.address)
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("starting go-sdk's server: %w", err)
	}
	return (&network{address: s.address}).reachable(ctx)
}

func (s *realServer) stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
		_ = s.cmd.Wait()                          // it was killed
		s.cmd = nil
	}
}

func (s *realServer) call(ctx context.Context, client *session, begun time.Time) (time.Duration, error) {
	text, err := client.callWith(ctx, httpTool, `{"name":"you"}`)
	if err == nil && !strings.Contains(text, "you") {
		err = fmt.Errorf("go-sdk's server answers %q", text)
	}
	return time.Since(begun), err
}

func realRestarted(ctx context.Context, t *trial) error {
	s, err := t.newRealServer(ctx)
	if err != nil {
		return err
	}
	client, _, err := t.startOne(ctx, at("http://"+s.address))
	if err != nil {
		return err
	}
	mark, begun := t.events.mark(), time.Now()
	s.stop()
	if err := s.start(ctx); err != nil {
		return err
	}
	up := time.Now()
	took, err := s.call(ctx, client, up)
	if err != nil {
		return err
	}
	lost, err := t.events.await(ctx, mark, status.EventDisconnected, "one")
	if err != nil {
		return err
	}
	t.noticed, t.usable = samples{lost.at.Sub(begun)}, samples{took}
	t.within("the call", took, 2*time.Second)
	t.remark("usable again is measured from when the server takes connections")
	return nil
}

func realStopped(ctx context.Context, t *trial) error {
	s, err := t.newRealServer(ctx)
	if err != nil {
		return err
	}
	client, _, err := t.startOne(ctx, at("http://"+s.address))
	if err != nil {
		return err
	}
	mark, begun := t.events.mark(), time.Now()
	s.stop()
	lost, err := t.events.await(ctx, mark, status.EventDisconnected, "one")
	if err != nil {
		return err
	}
	t.noticed = samples{lost.at.Sub(begun)}
	if _, err := t.in(ctx, "one", status.SlowProbe); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	took, err := s.call(ctx, client, time.Now())
	t.usable = samples{took}
	t.within("the call", took, againLimit)
	t.remark("usable again is measured from the call on")
	return err
}
