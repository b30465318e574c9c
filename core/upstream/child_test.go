package upstream

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"go.uber.org/goleak"

	"mcp-funnel/core/config"
	"mcp-funnel/core/environ"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

// childMode, in the environment, makes this test binary a server of that kind.
const childMode = "MCP_FUNNEL_TEST_SERVER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		playServer(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// playServer is a server with a fault. A mode may have an argument: "mode:argument".
func playServer(mode string) {
	mode, argument, _ := strings.Cut(mode, ":")
	switch mode {
	case "exit-at-once":
		fmt.Fprintln(os.Stderr, "boom: missing API key")
		os.Exit(3)
	case "silent":
		select {}
	case "ignore-eof", "ignore-all":
		terms := make(chan os.Signal, 1)
		signal.Notify(terms, syscall.SIGTERM)
		go func() {
			<-terms
			note(argument, "TERM")
			if mode == "ignore-eof" {
				os.Exit(0)
			}
		}()
	case "note-term":
		terms := make(chan os.Signal, 1)
		signal.Notify(terms, syscall.SIGTERM)
		go func() { <-terms; note(argument, "TERM"); os.Exit(0) }()
	case "grandchild":
		c := exec.Command("sleep", "600")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			panic(err)
		}
		note(argument, strconv.Itoa(c.Process.Pid))
	case "leak-stdout":
		fmt.Println(strings.Repeat("x", 190) + " " + os.Getenv("API_TOKEN"))
	case "leak-stderr":
		fmt.Fprintln(os.Stderr, "key is "+os.Getenv("API_TOKEN"))
	case "setsid":
		c := exec.Command("setsid", "sleep", "600")
		if err := c.Start(); err != nil {
			panic(err)
		}
		note(argument, strconv.Itoa(c.Process.Pid))
	case "noise":
		chatter(0)
	}
	serveChild(mode, argument)
	if mode == "ignore-eof" || mode == "ignore-all" {
		select {}
	}
	note(argument, "EOF")
}

// note appends a line to the file, if there is one.
func note(file, line string) {
	if file == "" {
		return
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = fmt.Fprintln(f, line)
		_ = f.Close()
	}
}

// chatter is what programs write to stdout besides messages.
func chatter(n int) {
	fmt.Printf("npm warn exec %d\n\n🚀 started %d\n \t\n\x1b[31mred %d\x1b[0m\nlong %d %s\n", n, n, n, n, strings.Repeat("x", 300))
}

func serveChild(mode, argument string) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name      string
				Arguments json.RawMessage
				RequestID json.RawMessage `json:"requestId"`
				Meta      struct {
					ProgressToken json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			}
		}
		if json.Unmarshal(line, &m) != nil {
			note(argument, "BROKEN LINE")
			continue
		}
		switch mode {
		case "noise":
			chatter(n)
		case "bad-json":
			fmt.Println("{bad json")
		case "stderr-flood":
			fmt.Fprintln(os.Stderr, strings.Repeat("e", 256<<10))
		}
		answerChild(mode, argument, m.ID, m.Method, m.Params.Name, m.Params.RequestID, m.Params.Meta.ProgressToken, line)
	}
}

func answerChild(mode, argument string, id json.RawMessage, method, tool string, cancelled, token json.RawMessage, line []byte) {
	result := func(text string) { fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, text) }
	switch method {
	case "initialize":
		if mode == "leak-error" {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Incorrect API key provided: %s %s"}}`+"\n",
				id, os.Getenv("API_TOKEN"), strings.Repeat(`\n\u001b[31mx`, 1000))
			return
		}
		if mode == "refuse" {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no"}}`+"\n", id)
			return
		}
		result(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"child","version":"1"}}`)
	case "tools/list":
		result(`{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`)
	case "notifications/cancelled":
		note(argument, "cancelled "+string(cancelled))
		if mode == "late" {
			id = cancelled
			result(`{"content":[{"type":"text","text":"late"}]}`)
		}
	case "tools/call":
		note(argument, "call "+string(id)+" "+tool)
		switch {
		case mode == "die-on-call":
			os.Exit(7)
		case mode == "close-stdout":
			_ = os.Stdout.Close()
		case mode == "crowd":
			crowd.add(id, line)
		case mode == "string-id":
			fmt.Printf(`{"jsonrpc":"2.0","id":"%s","result":{"content":[]}}`+"\n", id)
		case tool == "ask-both":
			asking.add(id)
		case tool == "where":
			dir, _ := os.Getwd()
			where, err := json.Marshal([]string{dir, os.Getenv("WHERE"), strings.Join(os.Args[1:], " "), strconv.Itoa(os.Getpid())})
			if err != nil {
				panic(err)
			}
			result(string(where))
		case tool == "shut":
			result(`{"content":[]}`)
			_ = os.Stdin.Close()
			select {}
		case tool == "hang":
		case tool == "progress":
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":9007199254740993}}`+"\n", token)
			result(`{"content":[]}`)
		case tool == "error":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32050, "message":"m","data":{"k":9007199254740993}}}`+"\n", id)
		case tool == "line":
			result(strconv.Quote(string(line[:len(line)-1])))
		default:
			result(`{"content":[{"type":"text","text":"ok"}], "big":9007199254740993}`)
		}
	case "ping":
		result("{}")
	case "":
		asking.answered(id, line)
	}
}

// asking waits for two calls, asks a question for each, and answers each call with the
// answer to its question.
var asking askingBoth

type askingBoth struct{ calls []json.RawMessage }

func (a *askingBoth) add(id json.RawMessage) {
	if a.calls = append(a.calls, id); len(a.calls) == 2 {
		for i := range a.calls {
			fmt.Printf(`{"jsonrpc":"2.0","id":%d,"method":"sampling/createMessage","params":{}}`+"\n", i)
		}
	}
}

func (a *askingBoth) answered(question json.RawMessage, line []byte) {
	i, err := strconv.Atoi(string(question))
	if err != nil {
		return
	}
	fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", a.calls[i], line[:len(line)-1])
	if a.calls[i] = nil; a.calls[0] == nil && a.calls[1] == nil {
		a.calls = nil
	}
}

// crowd answers calls only once all of them are there, in reverse order and each with
// its own delay: whoever sends them one by one waits for ever.
var crowd = crowded{size: 50}

type crowded struct {
	size  int
	calls [][2]string // id, n
}

// crowdStep lies between two answers, and is varied by as much.
const crowdStep = 5 * time.Millisecond

func (c *crowded) add(id json.RawMessage, line []byte) {
	var m struct {
		Params struct{ Arguments struct{ N json.RawMessage } }
	}
	_ = json.Unmarshal(line, &m) // a broken line is noted already
	c.calls = append(c.calls, [2]string{string(id), string(m.Params.Arguments.N)})
	if len(c.calls) < c.size {
		return
	}
	slices.Reverse(c.calls)
	for _, call := range c.calls {
		time.Sleep(rand.N(2 * crowdStep))
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"n":%s}}`+"\n", call[0], call[1])
	}
}

// rig runs one upstream on this test binary.
type rig struct {
	t        *testing.T
	begun    time.Time
	upstream *Upstream
	board    *status.Board
	events   *status.Events
	custody  *Custody
	// log is the server's own, appLog that of the app.
	log, appLog *lockedText

	cancel context.CancelFunc
	done   chan struct{}
	notes  string
}

// newRig starts an upstream in a fault mode with quick retries.
func newRig(t *testing.T, mode string, change ...func(*config.Server)) *rig {
	t.Helper()
	r := &rig{
		t: t, begun: time.Now(), board: status.NewBoard(), events: status.NewEvents(1000, nil), done: make(chan struct{}),
		log: &lockedText{}, appLog: &lockedText{}, notes: filepath.Join(t.TempDir(), "notes"),
	}
	log := slog.New(slog.NewTextHandler(r.appLog, nil))
	r.custody = OpenCustody(filepath.Join(t.TempDir(), "children.json"), log)
	entry := config.Server{
		Name: "s", Type: config.Stdio, Command: os.Args[0], Enabled: true,
		// A program with the race detector waits for a second before it exits.
		Env:            []string{childMode + "=" + mode + ":" + r.notes, "GORACE=atexit_sleep_ms=0"},
		StartupTimeout: 20 * time.Second,
		Reconnect: config.Reconnect{
			Enabled: true, MaxAttempts: 3, InitialDelay: 20 * time.Millisecond, BackoffMultiplier: 1.5,
			MaxDelay: 100 * time.Millisecond, SlowProbeInterval: 200 * time.Millisecond, StableAfter: time.Minute,
		},
	}
	for _, c := range change {
		c(&entry)
	}
	launcher := &Launcher{
		Environment: func(context.Context) environ.Env { return environ.New(os.Environ()) },
		Home:        t.TempDir(), OpenLog: func(string) io.WriteCloser { return r.log },
		Custody: r.custody, HTTP: NewHTTPClient(), Log: log,
	}
	r.upstream = New(entry, true, Deps{
		Open: launcher.Open, Self: mcp.Implementation{Name: "test", Version: "1"}, Board: r.board, Events: r.events,
		Remembered: func(config.Server) Lists { return Lists{} }, News: func(string, jsonrpc.Message) {},
		Wanted:  func(string) ([]string, string) { return nil, "" },
		Changed: func() {}, Log: log, Random: half,
	})
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { defer close(r.done); _ = r.upstream.Run(ctx) }()
	t.Cleanup(r.stop)
	return r
}

// lockedText is a log that a test reads while it is written.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) Close() error { return nil }

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

type discard struct{ io.Writer }

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

func (r *rig) stop() {
	r.cancel()
	<-r.done
}

// until waits for the server to be in a state.
func (r *rig) until(what string, holds func(status.Server) bool) status.Server {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for after := uint64(0); ; {
		snap, err := r.board.Wait(ctx, after)
		if err != nil {
			now, _ := r.board.Snapshot().Server("s")
			r.t.Fatalf("waited in vain until %s; the server is %+v", what, now)
		}
		if s, ok := snap.Server("s"); ok && holds(s) {
			return s
		}
		after = snap.Generation
	}
}

func (r *rig) connected() status.Server {
	r.t.Helper()
	return r.until("connected", func(s status.Server) bool { return s.State == status.Connected })
}

// inbox collects replies and progress of requests.
type inbox struct {
	replies  chan string
	progress chan string
}

func newInbox() *inbox {
	return &inbox{replies: make(chan string, 100), progress: make(chan string, 100)}
}

func (a *inbox) Reply(_ *Request, reply []byte)           { a.replies <- string(reply) }
func (a *inbox) Progress(_ *Request, notification []byte) { a.progress <- string(notification) }

func (a *inbox) Tell([]byte)        {}
func (a *inbox) Ask(q *Question)    { q.Refuse(&jsonrpc.Error{Code: -1, Message: "no"}) }
func (a *inbox) Withdraw(*Question) {}

func (a *inbox) wait(t *testing.T) string {
	t.Helper()
	select {
	case reply := <-a.replies:
		return reply
	case <-time.After(15 * time.Second):
		t.Fatal("no reply")
		return ""
	}
}

// request parses a client's line and names the tool.
func request(t *testing.T, line string, caller Caller) *Request {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	return &Request{Message: m, Label: "x", Caller: caller}
}

// noted waits until the server wrote a line that holds text to its notes.
func (r *rig) noted(text string) string {
	r.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		content, _ := os.ReadFile(r.notes)
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, text) {
				return strings.TrimSpace(line)
			}
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("the server did not note %q; it noted: %s", text, content)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
