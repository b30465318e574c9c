package singleton

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"mcp-funnel/singleton/process"
)

// Modes of an instance, in [Info] and [Welcome].
const (
	ModeTray     = "tray"
	ModeHeadless = "headless"
)

// Info is what funnel.json says about the holder of the lock.
type Info struct {
	PID int `json:"pid"`
	// StartTime is the holder's, as [process.StartTime] gives it.
	StartTime string `json:"startTime"`
	// Exe is the path of the holder's program.
	Exe     string `json:"exe"`
	Version string `json:"version"`
	// Config is the path of the holder's configuration.
	Config string `json:"config"`
	// Mode is [ModeTray] or [ModeHeadless].
	Mode string `json:"mode"`
}

// maxInfo is far above what any funnel.json takes.
const maxInfo = 64 << 10

// ReadInfo reads funnel.json in dir. The error wraps [fs.ErrNotExist] when there
// is none. What it says may be outdated: a killed instance leaves it behind.
func ReadInfo(dir string) (Info, error) {
	path := filepath.Join(dir, infoName)
	f, err := os.Open(path)
	if err != nil {
		return Info{}, fmt.Errorf("reading who runs: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxInfo))
	if err != nil {
		return Info{}, fmt.Errorf("reading who runs: %w", err)
	}
	info, err := parseInfo(text)
	if err != nil {
		return Info{}, fmt.Errorf("reading who runs from %s: %w", path, err)
	}
	return info, nil
}

func parseInfo(text []byte) (Info, error) {
	var info Info
	if err := json.Unmarshal(text, &info); err != nil {
		return Info{}, err
	}
	if info.PID <= 0 {
		return Info{}, errors.New("it names no process")
	}
	return info, nil
}

// holder returns what funnel.json says if it is about a process that lives; the
// zero Info otherwise, as when the holder has not written it yet.
func holder(dir string) Info {
	info, err := ReadInfo(dir)
	if err != nil || !process.Alive(info.PID, info.StartTime) {
		return Info{}
	}
	return info
}

// ofThisProcess fills in what only the process itself can be sure of.
func (i Info) ofThisProcess() (Info, error) {
	i.PID = os.Getpid()
	var err error
	if i.StartTime, err = process.StartTime(i.PID); err != nil {
		return Info{}, err
	}
	if i.Exe, err = process.Exe(i.PID); err != nil {
		return Info{}, err
	}
	return i, nil
}

// RunningError says that another instance holds the lock.
type RunningError struct {
	// Info is about that instance. Where it has not yet said who it is, only
	// the PID may be set, or nothing.
	Info Info
	// OtherConfig says that it runs with another config than was asked for.
	OtherConfig bool
}

func (e *RunningError) Error() string {
	text := "already running"
	if e.Info.PID != 0 {
		text = fmt.Sprintf("already running (pid %d)", e.Info.PID)
	}
	if e.OtherConfig {
		text += fmt.Sprintf(" with another config, %s: end it with `mcp-funnel quit` first, or start with --replace", e.Info.Config)
	}
	return text
}

// newRunningError describes the instance first to one that wanted to start as
// wanted.
func newRunningError(first, wanted Info) *RunningError {
	other := wanted.Config != "" && first.Config != "" &&
		filepath.Clean(wanted.Config) != filepath.Clean(first.Config)
	return &RunningError{Info: first, OtherConfig: other}
}
