package upstream

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	identity "mcp-funnel/singleton/process"
)

// tagVariable is in the environment of every process we start, and by
// inheritance of its descendants. Its value is known to children.json only, so
// that a process of a previous life is recognised beyond doubt.
const tagVariable = "MCP_FUNNEL_CHILD"

// child is one entry of children.json.
type child struct {
	Server string `json:"server"`
	// PID leads the process group of the same number; 0 while it is being started.
	PID   int `json:"pid"`
	Group int `json:"group"`
	// StartTime tells PID from a later process of the same number.
	StartTime string `json:"startTime"`
	Tag       string `json:"tag"`
}

// leaderAlive reports whether the recorded process itself still lives.
func (c child) leaderAlive() bool {
	return c.PID > 0 && identity.Alive(c.PID, c.StartTime)
}

// Custody keeps the list of our child processes on disk, and ends those that a
// killed predecessor left behind.
type Custody struct {
	path string
	log  *slog.Logger

	mu       sync.Mutex
	children map[string]child // by tag
	// leftovers are closed when the remains of a server are gone.
	leftovers map[string]chan struct{} // by server
	old       []child
}

// OpenCustody reads the list at path, which the predecessor left; a missing one
// is empty. A list that cannot be read is given up, with a warning: nothing is
// ended on its word.
func OpenCustody(path string, log *slog.Logger) *Custody {
	c := &Custody{path: path, log: log, children: make(map[string]child), leftovers: make(map[string]chan struct{})}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c
	}
	if err == nil {
		err = json.Unmarshal(data, &c.old)
	}
	if err != nil {
		log.Warn("reading the list of child processes failed; if servers of an earlier run are left, end them by hand", "err", err)
		c.old = nil
	}
	for _, left := range c.old {
		c.children[left.Tag] = left
		if c.leftovers[left.Server] == nil {
			c.leftovers[left.Server] = make(chan struct{})
		}
	}
	return c
}

// Sweep ends what the predecessor left, side by side, and returns when it is gone
// or ctx ends.
func (c *Custody) Sweep(ctx context.Context) {
	byServer := make(map[string][]child)
	for _, left := range c.old {
		byServer[left.Server] = append(byServer[left.Server], left)
	}
	var sweepers sync.WaitGroup
	for server, left := range byServer {
		sweepers.Go(func() {
			for _, one := range left {
				c.endLeftover(ctx, one)
			}
			close(c.leftovers[server])
		})
	}
	sweepers.Wait()
}

// endLeftover ends one process of an earlier life with all that belongs to it.
func (c *Custody) endLeftover(ctx context.Context, left child) {
	if left.Tag == "" {
		return
	}
	if taggedAlive(left) {
		c.log.Info("ending a server that an earlier run left behind", "server", left.Server, "pid", left.PID)
		endTagged(left, false)
		if !gone(ctx, left, termGrace) {
			endTagged(left, true)
			gone(ctx, left, termGrace)
		}
	}
	c.remove(left.Tag)
}

// gone waits until nothing of left lives, at most for d.
func gone(ctx context.Context, left child, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for taggedAlive(left) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Cleared waits until nothing of an earlier life of server is left.
func (c *Custody) Cleared(ctx context.Context, server string) error {
	c.mu.Lock()
	left := c.leftovers[server]
	c.mu.Unlock()
	if left == nil {
		return nil
	}
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the end of a process that an earlier run left behind: %w", context.Cause(ctx))
	}
}

// start launches cmd with a tag, noted before it runs, so that no moment exists in
// which a process of ours would be unknown.
func (c *Custody) start(cmd *exec.Cmd, server string) (*process, error) {
	tag := rand.Text()
	cmd.Env = append(slices.Clip(cmd.Env), tagVariable+"="+tag)
	if err := c.put(child{Server: server, Tag: tag}); err != nil {
		c.remove(tag)
		return nil, err
	}
	p, err := launch(cmd)
	if err != nil {
		c.remove(tag)
		return nil, err
	}
	p.tag = tag
	p.reaped = func() { c.remove(tag) }
	// Without a start time the tag alone must do, which it does.
	start, _ := identity.StartTime(p.pid)
	if err := c.put(child{Server: server, PID: p.pid, Group: p.pid, StartTime: start, Tag: tag}); err != nil {
		c.log.Warn("noting a child process failed", "server", server, "err", err)
	}
	return p, nil
}

func (c *Custody) put(entry child) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.children[entry.Tag] = entry
	return c.write()
}

func (c *Custody) remove(tag string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.children, tag)
	if err := c.write(); err != nil {
		c.log.Warn("noting the end of a child process failed", "err", err)
	}
}

// write replaces the list on disk; without children there is none. c.mu is held.
func (c *Custody) write() error {
	if len(c.children) == 0 {
		if err := os.Remove(c.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the list of child processes: %w", err)
		}
		return nil
	}
	list := make([]child, 0, len(c.children))
	for _, entry := range c.children {
		list = append(list, entry)
	}
	data, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encoding the list of child processes: %w", err)
	}
	if err := replace(c.path, append(data, '\n')); err != nil {
		return fmt.Errorf("writing the list of child processes: %w", err)
	}
	return nil
}

// replace puts a file (0600) with this text at path in one step. Unlike what one does
// for files that people need, it does not wait for the disk: no process outlives a
// loss of power, and every start of a server waits for this.
func replace(path string, text []byte) error {
	temp := path + ".tmp" // a fixed name: only the holder of the lock writes
	if err := os.WriteFile(temp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
