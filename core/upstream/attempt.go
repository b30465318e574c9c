package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"mcp-funnel/core/config"
)

// attemptResult is the outcome of one attempt: a link that is up, or why not.
type attemptResult struct {
	link  *link
	shake handshake
	tools [][]byte
	// fingerprint is that of the entry which was tried.
	fingerprint string
	err         error
	// stderr is the tail of what a failed server wrote.
	stderr string
}

// startAttempt begins to connect in the background; u.results tells the outcome.
func (u *Upstream) startAttempt(ctx context.Context) {
	ctx, u.cancel = context.WithCancelCause(ctx)
	entry, urgent := u.entry, u.urgent
	u.urgent = false
	u.work.Go(func() { u.results <- u.attempt(ctx, entry, urgent) })
}

// attempt waits for the server's turn, unless a person wants it now, and connects to
// it. When that fails nothing is left of it.
func (u *Upstream) attempt(ctx context.Context, entry config.Server, urgent bool) attemptResult {
	if urgent {
		return u.connect(ctx, entry)
	}
	leave, err := u.deps.starts.enter(ctx, entry)
	if err != nil {
		return attemptResult{err: err}
	}
	result := u.connect(ctx, entry)
	leave(result.err == nil)
	return result
}

// connect opens a fresh transport, greets the server and reads its lists.
func (u *Upstream) connect(ctx context.Context, entry config.Server) attemptResult {
	late := fmt.Errorf("it did not finish its start within %s (startupTimeoutMs in its config)", entry.StartupTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, entry.StartupTimeout, late)
	defer cancel()

	transport, err := u.deps.Open(entry)(ctx)
	if err != nil {
		return attemptResult{err: err}
	}
	l := newLink(entry.Name, entry.CallTimeout)
	l.transport, l.again = transport, u.takeBack
	transport.Start(l)
	result := attemptResult{link: l, fingerprint: entry.Fingerprint()}
	if result.shake, result.err = l.greet(ctx, u.deps.Self); result.err == nil && result.shake.tools {
		result.tools, result.err = l.listTools(ctx)
	}
	if result.err != nil {
		result.err = tidy(transport, result.err)
		l.end(result.err)
		transport.Close()
		return attemptResult{err: result.err, stderr: transport.StderrTail()}
	}
	result.tools = u.sound(result.tools)
	return result
}

// attemptEnded takes the outcome of the attempt over.
func (u *Upstream) attemptEnded(ctx context.Context, result attemptResult) {
	u.cancel(nil)
	if u.machine.phase == stopping { // it was cancelled
		if result.link == nil {
			u.carryOut(ctx, inStopped)
			return
		}
		u.live = result.link
		u.closeLink(errStopped)
		return
	}
	if result.err != nil {
		u.facts.lastError, u.facts.stderrTail = result.err.Error(), result.stderr
		if refused, ok := errors.AsType[*statusError](result.err); ok {
			u.machine.hold(refused.retryAfter, time.Now())
		}
		if _, refused := errors.AsType[*AuthError](result.err); refused {
			u.carryOut(ctx, inRefused)
		} else {
			u.carryOut(ctx, inFailed)
		}
		u.settle()
		return
	}
	u.connected(ctx, result)
}

// connected puts a new connection into use.
func (u *Upstream) connected(ctx context.Context, result attemptResult) {
	u.live = result.link
	u.facts = facts{
		pid:      result.link.transport.PID(),
		version:  result.shake.version,
		restarts: u.machine.connections,
	}
	u.mu.Lock()
	u.tools, u.toolsOf = result.tools, result.fingerprint
	u.mu.Unlock()
	u.carryOut(ctx, inConnected)
	_, heard := result.link.activity()
	u.health.begin(u.entry.PingInterval, heard)
	u.settle()
	u.unpark(result.link)
	u.deps.Changed()
}

// sound leaves out tools that are not proper JSON: in the one list for all servers
// they would make clients refuse the tools of the others as well.
func (u *Upstream) sound(tools [][]byte) [][]byte {
	kept := make([][]byte, 0, len(tools))
	for _, tool := range tools {
		if json.Valid(tool) && utf8.Valid(tool) {
			kept = append(kept, tool)
		}
	}
	if broken := len(tools) - len(kept); broken > 0 {
		u.deps.Log.Warn("a server lists tools that are not valid JSON; they are left out", "server", u.name, "tools", broken)
	}
	return kept
}

type relistResult struct {
	link  *link
	tools [][]byte
	err   error
}

// relistTimeout bounds how long a server may take to tell its changed tools.
const relistTimeout = time.Minute

// relist reads the tools again in the background.
func (u *Upstream) relist(ctx context.Context) {
	l := u.live
	u.listing = true
	u.work.Go(func() {
		ctx, cancel := context.WithTimeoutCause(ctx, relistTimeout, errors.New("no answer within a minute"))
		defer cancel()
		tools, err := l.listTools(ctx)
		u.relists <- relistResult{link: l, tools: u.sound(tools), err: tidy(l.transport, err)}
	})
}

// relisted takes over what relist read, if it is of the present connection.
func (u *Upstream) relisted(result relistResult) {
	u.listing = false
	if result.link != u.live {
		return
	}
	if result.err != nil {
		u.deps.Log.Warn("reading changed tools failed; the old ones stay", "server", u.name, "err", result.err)
		return
	}
	u.mu.Lock()
	u.tools = result.tools
	u.mu.Unlock()
	u.show()
	u.deps.Changed()
}
