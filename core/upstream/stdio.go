package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-funnel/core/jsonrpc"
)

// Command is the process to start for a stdio server.
type Command struct {
	Server string
	// Path is the executable, already looked up; Args those after it.
	Path string
	Args []string
	// Env and Dir are its whole environment and its folder.
	Env []string
	Dir string
	// Log takes its stderr and notes about it; it is closed with the transport.
	Log io.WriteCloser
	// Mask takes secrets out of what people get to read.
	Mask func(string) string
	// Custody remembers the process over the death of this app.
	Custody *Custody
	// Burst is that of everybody who reads or writes lines; nil works too.
	Burst *jsonrpc.Burst
	// Logger gets what is wrong with the process.
	Logger *slog.Logger
}

// Times of stopping a process (MCP lifecycle, "Shutdown" of stdio servers).
const (
	// eofGrace is what a server gets to end by itself once its input is closed.
	eofGrace = 2 * time.Second
	// termGrace is what its process group gets between SIGTERM and SIGKILL.
	termGrace = 4 * time.Second
	// drainGrace is how long output is still read after the process ended: what
	// it wrote before its end is in the pipe, but a descendant may hold that open.
	drainGrace = 200 * time.Millisecond
)

// maxBacklog bounds the bytes that wait for one server to read.
const maxBacklog = 64 << 20

// stdio is a [Transport] to a process of ours.
type stdio struct {
	command Command
	process *process
	stdin   *os.File
	stdout  *os.File
	stderr  *os.File
	out     *jsonrpc.Writer
	tail    *tail
	// ended is closed when the connection is over; err says why before that.
	ended chan struct{}
	err   error
	// stdinBroken is closed when the server cannot be written to, stdinDone when
	// nothing is written any more.
	stdinBroken, stdinDone chan struct{}
	// begun is how many messages the server may have got; valid once ended is closed.
	begun int
	// stdoutDone and stderrDone are closed when nothing more comes from there.
	stdoutDone, stderrDone chan struct{}
	work                   sync.WaitGroup
	closing                sync.Once
}

// startStdio starts the process. Its pipes are ours and not those of os/exec, so
// that noticing its exit does not wait for a descendant that holds them.
func startStdio(c Command) (_ *stdio, err error) {
	t := &stdio{
		command:    c,
		out:        jsonrpc.NewWriter(maxBacklog, c.Burst),
		tail:       newTail(),
		ended:      make(chan struct{}),
		stdoutDone: make(chan struct{}),
		stderrDone: make(chan struct{}),

		stdinBroken: make(chan struct{}),
		stdinDone:   make(chan struct{}),
	}
	var theirs [3]*os.File
	defer func() {
		closeAll(theirs[:]...)
		if err != nil {
			closeAll(t.stdin, t.stdout, t.stderr)
		}
	}()
	if theirs[0], t.stdin, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	if t.stdout, theirs[1], err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	jsonrpc.Widen(theirs[1])
	if t.stderr, theirs[2], err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	cmd := &exec.Cmd{
		Path: c.Path, Args: append([]string{c.Path}, c.Args...), Env: c.Env, Dir: c.Dir,
		Stdin: theirs[0], Stdout: theirs[1], Stderr: theirs[2],
	}
	if t.process, err = c.Custody.start(cmd, c.Server); err != nil {
		return nil, fmt.Errorf("starting %q: %w", c.Path, err)
	}
	return t, nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // a pipe end: nothing is buffered that could be lost
		}
	}
}

// Start implements [Transport].
func (t *stdio) Start(sink Sink) {
	t.work.Go(func() { t.readStdout(sink) })
	t.work.Go(t.readStderr)
	t.work.Go(func() {
		defer close(t.stdinDone)
		if err := t.out.Run(t.stdin, 0); err != nil {
			close(t.stdinBroken) // it reads no more
		}
		closeAll(t.stdin)
	})
	t.work.Go(t.watch)
}

// watch notices the end of the process or of one of its pipes, whichever is first.
// All and the last words on stderr usually come at once, but a descendant may hold
// the pipes open.
func (t *stdio) watch() {
	cause := "closed its output and goes on running"
	select {
	case <-t.process.exited:
	case <-t.stdoutDone:
	case <-t.stdinBroken:
		cause = "closed its input and goes on running"
	}
	drained, cancel := context.WithTimeout(context.Background(), drainGrace)
	defer cancel()
	for _, end := range []<-chan struct{}{t.process.exited, t.stdoutDone, t.stderrDone} {
		select {
		case <-end:
		case <-drained.Done():
		}
	}
	select {
	case <-t.process.exited:
		t.finish(t.process.exit)
	default:
		t.finish(exitStatus{code: -1, cause: cause})
	}
}

// finish ends the connection.
func (t *stdio) finish(exit exitStatus) {
	t.err = &ExitError{Code: exit.code, Cause: exit.cause, Stderr: t.tail.last()}
	t.note(t.err.Error())
	t.out.Stop()
	select { // a write under way into a pipe that nobody reads fails at once
	case <-t.stdinDone:
	case <-time.After(drainGrace):
	}
	t.begun = t.out.Begun()
	close(t.ended)
}

// maxNoise is how many lines that are no messages are written to the log of a
// server; a program that talks on stdout may do so for ever.
const maxNoise = 20

// readStdout delivers the messages and skips the rest.
func (t *stdio) readStdout(sink Sink) {
	defer close(t.stdoutDone)
	reader := jsonrpc.NewReader(t.stdout, 0)
	noise := 0
	// How reading ended does not matter: the exit of the process tells more.
	_ = t.command.Burst.Lines(reader, func() error {
		line, err := reader.Next()
		long, tooLong := errors.AsType[*jsonrpc.TooLongError](err)
		switch {
		case tooLong:
			if id, ok := parseID(long.ID()); ok {
				sink.Failed(id, long)
			}
			t.note(long.Error())
			return nil
		case err != nil:
			return err
		}
		m, err := jsonrpc.Parse(line)
		if err != nil {
			if noise++; noise <= maxNoise {
				t.skipped(line, err, noise)
			}
			return nil
		}
		sink.Receive(m, 0)
		return nil
	})
}

// skipped tells of a line on stdout that is no message.
func (t *stdio) skipped(line []byte, why error, count int) {
	text := cut(t.command.Mask(printable(string(line[:min(len(line), 4<<10)]))), 200)
	if count == 1 {
		t.command.Logger.Warn("a server writes to stdout what is no message; such lines are skipped",
			"server", t.command.Server, "line", text, "err", why)
	}
	t.note("skipped on stdout: " + text)
}

// readStderr writes what the process says to its log and keeps the end of it.
func (t *stdio) readStderr() {
	defer close(t.stderrDone)
	reader := jsonrpc.NewReader(t.stderr, 1<<20)
	for {
		line, err := reader.Read()
		var long *jsonrpc.TooLongError
		switch {
		case errors.As(err, &long):
			line = long.Head
		case err != nil:
			return
		}
		text := t.command.Mask(printable(string(line)))
		t.tail.add(text)
		t.write(text)
	}
}

// note writes a remark of ours into the server's log.
func (t *stdio) note(text string) { t.write("[funnel] " + text) }

func (t *stdio) write(text string) {
	if _, err := io.WriteString(t.command.Log, time.Now().UTC().Format("2006-01-02T15:04:05.000Z ")+text+"\n"); err != nil {
		t.command.Logger.Debug("writing a server's log failed", "server", t.command.Server, "err", err)
	}
}

// Send implements [Transport].
func (t *stdio) Send(m jsonrpc.Message) (place int, err error) { return t.out.Put(m.Raw) }

// Unsent implements [Transport].
func (t *stdio) Unsent(place int) bool {
	select {
	case <-t.ended:
		return place > t.begun
	default:
		return false // it is being closed by us, and may still read
	}
}

// Done implements [Transport].
func (t *stdio) Done() <-chan struct{} { return t.ended }

// Err implements [Transport].
func (t *stdio) Err() error { return t.err }

// Negotiated implements [Transport]; pipes have no headers.
func (t *stdio) Negotiated(string) {}

// Mask implements [Transport].
func (t *stdio) Mask(text string) string { return t.command.Mask(text) }

// PID implements [Transport].
func (t *stdio) PID() int { return t.process.pid }

// StderrTail implements [Transport].
func (t *stdio) StderrTail() string { return t.tail.String() }

// Close implements [Transport].
func (t *stdio) Close() {
	t.closing.Do(func() {
		t.out.Close()
		t.process.stop(t.stdin)
		closeAll(t.stdout, t.stderr)
		t.work.Wait()
		if err := t.command.Log.Close(); err != nil {
			t.command.Logger.Debug("closing a server's log failed", "server", t.command.Server, "err", err)
		}
	})
}

// tail keeps the last lines of a text.
type tail struct {
	mu    sync.Mutex
	lines []string
}

// tailLines and tailBytes bound a tail; one line is cut to lineBytes.
const (
	tailLines = 20
	tailBytes = 4 << 10
	lineBytes = 500
)

func newTail() *tail { return &tail{} }

// cut shortens text to limit bytes or a little less.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

func (t *tail) add(line string) {
	line = cut(line, lineBytes)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
	size := 0
	for i, line := range slices.Backward(t.lines) {
		size += len(line) + 1
		if size > tailBytes || len(t.lines)-i > tailLines {
			t.lines = append([]string(nil), t.lines[i+1:]...)
			return
		}
	}
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 {
		return ""
	}
	return t.lines[len(t.lines)-1]
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

// printable removes control characters, terminal colours included.
func printable(text string) string {
	text = ansi.ReplaceAllString(text, "")
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
