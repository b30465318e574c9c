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
		ExposedTools:   snap.ExposedTools,
		Sessions:       f.hub.Sessions(),
		Servers:        make([]status.Server, 0, len(snap.Servers)),
	}
	for _, s := range snap.Servers {
		if s.PID > 0 {
			s.RSSBytes = treeMemory(ctx, s.PID)
		}
		for _, instance := range s.Instances {
			if instance.PID > 0 {
				s.RSSBytes += treeMemory(ctx, instance.PID)
			}
		}
		r.Servers = append(r.Servers, s)
	}
	return r
}

// treeMemory is the resident memory in bytes of a process and its descendants. One
// that ends meanwhile counts nothing.
func treeMemory(ctx context.Context, pid int) int64 {
	p, err := process.NewProcessWithContext(ctx, int32(pid)) //nolint:gosec // pids fit
	if err != nil {
		return 0
	}
	return memoryOf(ctx, p)
}

func memoryOf(ctx context.Context, p *process.Process) int64 {
	var sum int64
	if memory, err := p.MemoryInfoWithContext(ctx); err == nil {
		sum = int64(memory.RSS) //nolint:gosec // bytes of memory fit
	}
	children, err := p.ChildrenWithContext(ctx)
	if err != nil {
		return sum // it has none, or is gone
	}
	for _, child := range children {
		sum += memoryOf(ctx, child)
	}
	return sum
}
