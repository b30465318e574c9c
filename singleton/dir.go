package singleton

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Names of the files in the runtime folder.
const (
	lockName      = "funnel.lock"
	pidName       = "funnel.pid"
	infoName      = "funnel.json"
	socketName    = "funnel.sock"
	startLockName = "start.lock"
)

// DirError says that no folder could serve as the runtime folder.
type DirError struct {
	// Tried are the folders in the order in which they were tried.
	Tried []TriedDir
}

// TriedDir is a folder that cannot be the runtime folder.
type TriedDir struct {
	Path   string
	Reason error
}

func (e *DirError) Error() string {
	var b strings.Builder
	b.WriteString("there is no folder for the socket and the lock; tried")
	for i, t := range e.Tried {
		if i > 0 {
			b.WriteByte(';')
		}
		fmt.Fprintf(&b, " %s: %v", t.Path, t.Reason)
	}
	b.WriteString(". " + dirAdvice)
	return b.String()
}

// Unwrap gives the reasons.
func (e *DirError) Unwrap() []error {
	reasons := make([]error, len(e.Tried))
	for i, t := range e.Tried {
		reasons[i] = t.Reason
	}
	return reasons
}

// RuntimeDir returns the folder of the lock and the socket, and makes it (0700)
// when it is missing. App, bridge and CLI all come to the same folder, also when
// only some of them have XDG_RUNTIME_DIR: the first one that is safe of
//
//	$XDG_RUNTIME_DIR/mcp-funnel, /run/user/UID/mcp-funnel, /tmp/mcp-funnel-UID
//
// (macOS: $TMPDIR/mcp-funnel in place of the second; Windows: only
// %LOCALAPPDATA%\mcp-funnel\run). Safe means: a real folder, not a link, ours,
// closed to others, writable, and short enough for a socket's path. A
// [*DirError] lists what was tried and why it was refused.
func RuntimeDir() (string, error) {
	return firstUsable(candidates(systemPlaces()))
}

// candidate is a place where the runtime folder could be.
type candidate struct {
	path string
	// prepare checks the place and makes the folder.
	prepare func(path string) error
}

func firstUsable(places []candidate) (string, error) {
	var refused DirError
	for _, c := range places {
		_, err := socketPath(c.path)
		if err == nil {
			err = c.prepare(c.path)
		}
		if err == nil {
			return c.path, nil
		}
		refused.Tried = append(refused.Tried, TriedDir{c.path, err})
	}
	return "", &refused
}

// errNotAbsolute keeps a folder from depending on where a program was started.
var errNotAbsolute = errors.New("it is not an absolute path")

// unusable is a candidate that is out before it is looked at.
func unusable(path string, reason error) candidate {
	return candidate{path, func(string) error { return reason }}
}

// socketPath returns the socket's path in dir, or says that it is too long for
// the system: the name of a unix socket has to fit a fixed field.
func socketPath(dir string) (string, error) {
	path := filepath.Join(dir, socketName)
	if most := socketPathMax(); len(path) > most {
		return "", fmt.Errorf("the path of a socket in %s would be %d bytes long, more than the %d the system allows",
			dir, len(path), most)
	}
	return path, nil
}
