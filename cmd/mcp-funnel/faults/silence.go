//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"mcp-funnel/core/status"
)

// silenceLimit is by when an idle connection into a network that is lost is noticed.
const silenceLimit = 90 * time.Second

// silenceFaults are networks that swallow everything.
func silenceFaults() []fault {
	return []fault{
		{name: "http/black hole, called", did: "its network swallows everything; a call (callTimeoutMs 1000), then Reconnect", play: holeCalled},
		{name: "http/black hole, idle", did: "a proxy before it swallows everything; nobody calls", long: true, play: holeIdle},
		// Alone, since a new address has every app on this machine look at its servers.
		{name: "http/link down", did: "the other end of its network cable is down; nobody calls", long: true, alone: true, play: linkDown},
	}
}

// throughProxy starts an app over an HTTP server behind a proxy.
func (t *trial) throughProxy(ctx context.Context) (*proxy, *session, error) {
	server, err := t.peer()
	if err != nil {
		return nil, nil, err
	}
	server.streams = true
	hole, err := newProxy(server.address)
	if err != nil {
		return nil, nil, err
	}
	t.cleanup(hole.close)
	client, _, err := t.startOne(ctx, impatient(at(hole.url())))
	return hole, client, err
}

func holeCalled(ctx context.Context, t *trial) error {
	hole, client, err := t.throughProxy(ctx)
	if err != nil {
		return err
	}
	hole.freeze()
	begun := time.Now()
	_, err = client.call(ctx, "one__pid")
	t.noticed = samples{time.Since(begun)}
	t.refused("the call", err, "callTimeoutMs")
	t.within("the error", t.noticed[0], timeoutLimit)
	hole.thaw()
	begun = time.Now()
	if err := t.reconnect(ctx); err != nil {
		return err
	}
	_, took, err := measureCall(ctx, client, "one__pid", begun)
	t.usable = samples{took}
	t.within("the call after Reconnect", took, time.Second)
	t.remark("usable again is measured from Reconnect on, when the network was back")
	return err
}

// noticeSilence waits until the loss of an idle connection is noticed.
func (t *trial) noticeSilence(ctx context.Context, mark int, begun time.Time) error {
	limit := time.Duration(float64(silenceLimit) * t.slack)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not in %v", limit))
	defer cancel()
	lost, err := t.events.await(ctx, mark, status.EventDisconnected, "one")
	if err != nil {
		return err
	}
	t.noticed = samples{lost.at.Sub(begun)}
	return nil
}

func holeIdle(ctx context.Context, t *trial) error {
	hole, client, err := t.throughProxy(ctx)
	if err != nil {
		return err
	}
	mark, begun := t.events.mark(), time.Now()
	hole.freeze()
	if err := t.noticeSilence(ctx, mark, begun); err != nil {
		return err
	}
	hole.thaw()
	return t.usableByCall(ctx, client)
}

// usableByCall measures from the end of the fault to a call that succeeds. The first
// ones may end before the network is seen to be back.
func (t *trial) usableByCall(ctx context.Context, client *session) error {
	begun := time.Now()
	for {
		_, took, err := measureCall(ctx, client, "one__pid", begun)
		if err == nil {
			t.usable = samples{took}
			t.remark("usable again is measured from the end of the fault on, with calls")
			t.within("being usable again", took, 2*wakeInterval)
			return nil
		}
		if took > patience || pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

// network is a namespace with a server in it, and a cable that leads there.
type network struct {
	name    string
	address string
	server  *exec.Cmd
}

// newNetwork needs root and the program ip; the server in it is this program.
func (t *trial) newNetwork(ctx context.Context) (*network, error) {
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, skip("the program ip is missing (Debian package iproute2)")
	}
	// Names and addresses of their own for each process of this kind. The block is
	// for benchmarks of networks (RFC 2544) and is nobody's.
	id := os.Getpid()
	n := &network{name: fmt.Sprintf("mcpf%d", id)}
	near, far := fmt.Sprintf("mcpfa%d", id), fmt.Sprintf("mcpfb%d", id)
	subnet := fmt.Sprintf("198.18.%d.", id%256)
	n.address = subnet + "2:7877"
	t.cleanup(func() {
		_ = ip(context.WithoutCancel(ctx), "link del "+near) // they may not be there
		_ = ip(context.WithoutCancel(ctx), "netns del "+n.name)
	})
	for _, step := range []string{
		"netns add " + n.name,
		fmt.Sprintf("link add %s type veth peer name %s", near, far),
		fmt.Sprintf("link set %s netns %s", far, n.name),
		fmt.Sprintf("addr add %s1/30 dev %s", subnet, near),
		fmt.Sprintf("link set %s up", near),
		fmt.Sprintf("-n %s addr add %s2/30 dev %s", n.name, subnet, far),
		fmt.Sprintf("-n %s link set %s up", n.name, far),
	} {
		if err := ip(ctx, step); err != nil {
			return nil, skip("making a network namespace needs more rights: %v", err)
		}
	}
	n.server = exec.Command("ip", "netns", "exec", n.name, t.self, "server", "-mode", modeHTTP, "-listen", n.address)
	n.server.Env = os.Environ() // without the mark: it is not the app's to end
	if err := n.server.Start(); err != nil {
		return nil, fmt.Errorf("starting a server in a network namespace: %w", err)
	}
	t.cleanup(func() {
		_ = n.server.Process.Kill()
		_ = n.server.Wait() // it was killed
	})
	return n, n.reachable(ctx)
}

// cable sets the far end up or down.
func (n *network) cable(ctx context.Context, state string) error {
	return ip(ctx, fmt.Sprintf("-n %s link set mcpfb%d %s", n.name, os.Getpid(), state))
}

// reachable waits until the server takes connections.
func (n *network) reachable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.address)
		if err == nil {
			return conn.Close()
		}
		if pauseErr := pause(ctx, 20*time.Millisecond); pauseErr != nil {
			return errors.Join(err, pauseErr)
		}
	}
}

// ip runs the program of that name.
func ip(ctx context.Context, args string) error {
	out, err := exec.CommandContext(ctx, "ip", strings.Fields(args)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, out)
	}
	return nil
}

func linkDown(ctx context.Context, t *trial) error {
	n, err := t.newNetwork(ctx)
	if err != nil {
		return err
	}
	client, _, err := t.startOne(ctx, impatient(at("http://"+n.address+"/mcp")))
	if err != nil {
		return err
	}
	mark, begun := t.events.mark(), time.Now()
	if err := n.cable(ctx, "down"); err != nil {
		return err
	}
	if err := t.noticeSilence(ctx, mark, begun); err != nil {
		return err
	}
	if err := n.cable(ctx, "up"); err != nil {
		return err
	}
	return t.usableByCall(ctx, client)
}
