package core

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"mcp-funnel/core/status"
)

// Report is the answer to `status`; its JSON form is what `status --json` prints.
type Report struct {
	Version       string `json:"version"`
	PID           int    `json:"pid"`
	Mode          string `json:"mode"`
	UptimeSeconds int64  `json:"uptimeSeconds"`
	Goroutines    int    `json:"goroutines"`
	RuntimeDir    string `json:"runtimeDir"`
	Socket        string `json:"socket"`
	// Config is the path of the config file; ConfigError why it is not in force.
	Config         string           `json:"config"`
	ConfigError    string           `json:"configError,omitempty"`
	ConfigWarnings []string         `json:"configWarnings,omitempty"`
	Tray           status.Tray      `json:"tray"`
	HTTP           status.HTTP      `json:"http"`
	ExposedTools   int              `json:"exposedTools"`
	Sessions       []status.Session `json:"sessions"`
	Servers        []status.Server  `json:"servers"`
}

// Report says how everything stands now, memory included.
func (f *Funnel) Report(ctx context.Context) Report {
	snap := f.board.Snapshot()
	r := Report{
		Version:        f.options.Version,
		PID:            os.Getpid(),
		Mode:           f.options.Mode(),
		UptimeSeconds:  int64(time.Since(f.started).Seconds()),
		Goroutines:     runtime.NumGoroutine(),
		RuntimeDir:     f.options.RuntimeDir,
		Socket:         filepath.Join(f.options.RuntimeDir, "funnel.sock"),
		Config:         f.options.ConfigPath,
		ConfigError:    snap.Config.Error,
		ConfigWarnings: snap.Config.Warnings,
		Tray:           snap.Tray,
		HTTP:           snap.HTTP,
		ExposedTools:   snap.ExposedTools,
		Sessions:       f.hub.Sessions(),
		Servers:        make([]status.Server, 0, len(snap.Servers)),
	}
	var roots []int32
	for _, s := range snap.Servers {
		if s.PID > 0 {
			roots = append(roots, int32(s.PID)) //nolint:gosec // pids fit
		}
	}
	trees := treeMemory(ctx, roots)
	for _, s := range snap.Servers {
		s.RSSBytes = trees[int32(s.PID)] //nolint:gosec // pids fit
		r.Servers = append(r.Servers, s)
	}
	return r
}

// treeMemory is the resident memory in bytes of each of the processes and its
// descendants. One that ends meanwhile counts nothing. The table of processes is read
// once for all.
func treeMemory(ctx context.Context, roots []int32) map[int32]int64 {
	if len(roots) == 0 {
		return nil
	}
	all, err := process.ProcessesWithContext(ctx)
	if err != nil {
		return nil
	}
	known := make(map[int32]*process.Process, len(all))
	children := make(map[int32][]int32, len(all))
	for _, p := range all {
		known[p.Pid] = p
		if parent, err := p.PpidWithContext(ctx); err == nil {
			children[parent] = append(children[parent], p.Pid)
		}
	}
	var sum func(pid int32, depth int) int64
	sum = func(pid int32, depth int) int64 {
		p, ok := known[pid]
		if !ok || depth > maxDepth {
			return 0
		}
		var bytes int64
		if memory, err := p.MemoryInfoWithContext(ctx); err == nil {
			bytes = int64(memory.RSS) //nolint:gosec // bytes of memory fit
		}
		for _, child := range children[pid] {
			bytes += sum(child, depth+1)
		}
		return bytes
	}
	trees := make(map[int32]int64, len(roots))
	for _, root := range roots {
		trees[root] = sum(root, 0)
	}
	return trees
}

// maxDepth ends a circle, which pids that are given again while the table is read
// could make.
const maxDepth = 100
