package core

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"
)

// MakeStateDir makes the state folder and the one for logs in it, for the user alone.
func MakeStateDir(stateDir string) error {
	for _, dir := range []string{stateDir, filepath.Join(stateDir, "log")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making the state folder: %w", err)
		}
		if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder needs its x
			return fmt.Errorf("closing the state folder to others: %w", err)
		}
	}
	return nil
}

// OpenLog returns a writer to the file at path that is rotated at 5 MB and keeps
// two old files. Files are made with mode 0600; see [MakeStateDir] for the folder.
func OpenLog(path string) io.WriteCloser {
	return &lumberjack.Logger{Filename: path, MaxSize: 5, MaxBackups: 2}
}

// serverLogs keeps one open log for each server, over all its restarts.
type serverLogs struct {
	stateDir string

	mu   sync.Mutex
	open map[string]io.WriteCloser
}

func newServerLogs(stateDir string) *serverLogs {
	return &serverLogs{stateDir: stateDir, open: make(map[string]io.WriteCloser)}
}

// of returns the log of server. Closing it ends one use of it, not the log.
func (l *serverLogs) of(server string) io.WriteCloser {
	l.mu.Lock()
	defer l.mu.Unlock()
	log, ok := l.open[server]
	if !ok {
		log = OpenLog(ServerLogPath(l.stateDir, server))
		l.open[server] = log
	}
	return lent{log}
}

// note writes a remark of the funnel into the log of server.
func (l *serverLogs) note(server, text string) {
	stamp := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	// The funnel's own log has the same remark, if this one cannot be written.
	_, _ = fmt.Fprintf(l.of(server), "%s [funnel] %s\n", stamp, text)
}

// lent is a writer whose Close leaves the file open.
type lent struct{ io.Writer }

func (lent) Close() error { return nil }

// close ends all of them.
func (l *serverLogs) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, log := range l.open {
		_ = log.Close() // every line was written when it came
	}
	clear(l.open)
}
