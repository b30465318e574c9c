package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// rootsTime is how long a client may take to tell its roots.
const rootsTime = 2 * time.Second

// errNoFolder says what to do about a project's folder that is not known.
var errNoFolder = errors.New("runs for each project folder, and none is known of this client: start the client in the project, or set CLAUDE_PROJECT_DIR for the bridge (\"env\" of its entry in the client's config)")

// ID implements [upstream.Session].
func (s *session) ID() string { return s.id }

// Label implements [upstream.Session].
func (s *session) Label() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.client.Name, "unknown client")
}

// Folder implements [upstream.Session]: what the client says itself counts, then the
// first of its roots, then the folder in which it runs.
func (s *session) Folder(ctx context.Context) (string, error) {
	s.mu.Lock()
	folder, roots, asked := s.folder, s.can.roots, s.folders
	s.mu.Unlock()
	if folder != "" {
		return folder, nil
	}
	if folder = s.peer.ProjectDir; !filepath.IsAbs(folder) {
		folder = ""
	}
	if folder == "" && roots {
		folder = s.firstRoot(ctx)
	}
	if folder == "" && isProject(s.peer.CWD, s.hub.deps.Home) {
		folder = s.peer.CWD
	}
	if folder == "" {
		return "", errNoFolder
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if asked == s.folders { // else it changed meanwhile
		s.folder = folder
	}
	return folder, nil
}

// forgetFolder has the folder found out again.
func (s *session) forgetFolder() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folder = ""
	s.folders++
}

// isProject reports whether a client that was started in a folder is at work there.
// Desktop clients are started in the home folder, or in that of the system.
func isProject(folder, home string) bool {
	folder = filepath.Clean(folder)
	return filepath.IsAbs(folder) && folder != filepath.Clean(home) && folder != filepath.Dir(folder)
}

// firstRoot asks the client for its roots; "" when it has none that is a folder, or
// does not answer in time.
func (s *session) firstRoot(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, rootsTime)
	defer cancel()
	answer, ok := s.askOwn(ctx, mcp.MethodListRoots)
	if !ok {
		return ""
	}
	roots, _ := jsonrpc.Lookup(answer.Raw, answer.Result, "roots")
	for _, root := range jsonrpc.Elements(answer.Raw, roots) {
		uri, _ := jsonrpc.LookupString(answer.Raw, root, "uri")
		if folder := folderOf(uri); folder != "" {
			return folder
		}
	}
	return ""
}

// folderOf is the path of a file URI (RFC 8089), "" for another one.
func folderOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" {
		return ""
	}
	path := u.Path
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, "/")
	}
	if path = filepath.FromSlash(path); !filepath.IsAbs(path) {
		return ""
	}
	return path
}

// askOwn asks the client for ourselves and waits for the answer until ctx ends.
func (s *session) askOwn(ctx context.Context, method mcp.MCPMethod) (jsonrpc.Message, bool) {
	answer := make(chan jsonrpc.Message, 1)
	s.mu.Lock()
	id := s.nextID()
	s.own[string(id)] = answer
	s.mu.Unlock()
	s.send([]byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"method":` + string(jsonrpc.Quote(string(method))) + `}`))
	select {
	case m := <-answer:
		return m, m.Result.Present()
	case <-ctx.Done():
	}
	s.mu.Lock()
	_, open := s.own[string(id)]
	delete(s.own, string(id))
	s.mu.Unlock()
	if open {
		s.send(jsonrpc.NewNotification(string(mcp.MethodNotificationCancelled), []byte(`{"requestId":`+string(id)+`}`)))
	}
	return jsonrpc.Message{}, false
}

// nextID is the id of the next request to the client. s.mu is held.
func (s *session) nextID() []byte {
	s.lastQuestion++
	return jsonrpc.Quote(fmt.Sprintf("%s-%d", s.nonce, s.lastQuestion))
}

// join tells the servers of the session, once.
func (s *session) join() {
	s.mu.Lock()
	joined := s.joined
	s.joined = true
	s.mu.Unlock()
	if !joined && s.hub.deps.Joined != nil {
		s.hub.deps.Joined(s)
	}
}
