package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// callers is how many callers a client has at most.
const callers = 64

// answerTime is how long an answer may take.
const answerTime = 20 * time.Second

// client is a load client at the end of two pipes or of a connection. Each caller
// has one request under way at a time, whose id is the caller's number, so that
// nothing but the id is looked for in an answer.
type client struct {
	in io.WriteCloser
	// mu serialises requests.
	mu sync.Mutex
	// answers carry the length of a caller's answer; negative is an error.
	answers [callers]chan int
	// ended is closed when no more answers come.
	ended chan struct{}
	// wait joins the process; nil when there is none.
	wait func() error
}

// newClient speaks to whoever reads from in and writes to out.
func newClient(in io.WriteCloser, out io.Reader) *client {
	c := &client{in: in, ended: make(chan struct{})}
	for i := range c.answers {
		c.answers[i] = make(chan int, 1)
	}
	go c.read(out)
	return c
}

// startClient starts the process and speaks to it.
func startClient(cmd *exec.Cmd) (*client, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	c := newClient(in, out)
	c.wait = cmd.Wait
	return c, nil
}

// read gives each answer to its caller until the stream ends. Only the first part
// of a long line is looked at, and the rest is skipped.
func (c *client) read(out io.Reader) {
	defer close(c.ended)
	reader := bufio.NewReaderSize(out, 64<<10)
	for {
		line, err := reader.ReadSlice('\n')
		id, isAnswer := idOf(line)
		caller, _ := strconv.Atoi(string(id)) // digits, or nothing
		size := len(line)
		failed := bytes.Contains(line[:min(len(line), 64)], []byte(`"error"`))
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = reader.ReadSlice('\n')
			size += len(line)
		}
		if err != nil {
			return
		}
		if failed {
			size = -size
		}
		if isAnswer && caller < callers {
			c.answers[caller] <- size
		}
	}
}

// request is what a caller sends, complete with its newline.
type request []byte

// newRequest makes a request with the caller's number as its id and, as clients do,
// as its progress token.
func newRequest(caller int, method, params string) request {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"progressToken":%d}}}`+"\n", caller, method, params, caller)
}

// call sends the request of caller and waits for the answer, which has at least so
// many bytes.
func (c *client) call(caller int, r request, atLeast int) error {
	c.mu.Lock()
	_, err := c.in.Write(r)
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("sending %.80s: %w", r, err)
	}
	select {
	case size := <-c.answers[caller]:
		if size < atLeast {
			return fmt.Errorf("%.80s: got %d bytes, want at least %d", r, size, atLeast)
		}
		return nil
	case <-c.ended:
		return fmt.Errorf("%.80s: the other side closed", r)
	}
}

// greeting is the handshake and the question for the tools, which a client may send
// at once; the answers have the ids 0 and 1.
func greeting() []byte {
	return []byte(
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
			string(newRequest(1, "tools/list", "")))
}

// open shakes hands and fetches the list of tools.
func (c *client) open() error {
	c.mu.Lock()
	_, err := c.in.Write(greeting())
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("shaking hands: %w", err)
	}
	for caller, what := range []string{"initialize", "tools/list"} {
		select {
		case size := <-c.answers[caller]:
			if size < 0 {
				return fmt.Errorf("%s: it was refused", what)
			}
		case <-c.ended:
			return fmt.Errorf("%s: the other side closed", what)
		case <-time.After(answerTime):
			return fmt.Errorf("%s: no answer in %s", what, answerTime)
		}
	}
	return nil
}

// close ends the session, and waits for the process where there is one.
func (c *client) close() error {
	_ = c.in.Close() // the other side ends by this
	if c.wait == nil {
		<-c.ended
		return nil
	}
	if err := c.wait(); err != nil {
		return fmt.Errorf("ending a session: %w", err)
	}
	return nil
}
