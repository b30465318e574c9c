//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcp-funnel/core/jsonrpc"
)

// withWitness has the one server "w", which is quick to come back.
const withWitness = `{
  "mcpServers": { "w": { "command": "$DIR/witness", "args": ["$DIR/ran"] } },
  "reconnect": { "initialDelayMs": 50, "jitter": 0 }
}`

// newWitnessed makes a user whose one server keeps a list of what it ran.
func newWitnessed(t *testing.T) *sandbox {
	t.Helper()
	s := newSandbox(t, withWitness)
	if err := os.Symlink(s.program, filepath.Join(s.dir, "witness")); err != nil {
		t.Fatal(err)
	}
	return s
}

// ran counts the lines of what the witness noted.
func (s *sandbox) ran() map[string]int {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(s.dir, "ran"))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(content)) {
		counts[strings.TrimSuffix(line, "\n")]++
	}
	return counts
}

// appPID is the pid of the running app; 0 when none runs.
func (s *sandbox) appPID() int {
	content, err := os.ReadFile(filepath.Join(s.dir, "run", "mcp-funnel", "funnel.pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || !alive(pid) {
		return 0
	}
	return pid
}

// loaded is a client that has many requests open at once and keeps count of the
// replies to each.
type loaded struct {
	t    *testing.T
	name string
	c    *demoClient

	mu      sync.Mutex
	asked   map[string]chan struct{}
	replies map[string][]string
	// progress counts what came for each token.
	progress map[string]int
}

func (s *sandbox) loadedClient(name string) *loaded {
	s.t.Helper()
	l := &loaded{t: s.t, name: name, asked: map[string]chan struct{}{}, replies: map[string][]string{}, progress: map[string]int{}}
	cmd := s.command("bridge")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	l.c = &demoClient{cmd: cmd, stdin: stdin}
	read := make(chan struct{})
	go func() {
		defer close(read)
		l.read(jsonrpc.NewReader(stdout, 0))
	}()
	s.t.Cleanup(func() {
		_ = stdin.Close()
		<-read
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("bridge %s: %v", name, err)
		}
	})
	return l
}

// read takes what the bridge writes: whole messages, and replies only to what was
// asked.
func (l *loaded) read(reader *jsonrpc.Reader) {
	for {
		line, err := reader.Read()
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(line)
		if err != nil {
			l.t.Errorf("%s: a broken line: %v: %.200s", l.name, err, line)
			continue
		}
		if m.Kind != jsonrpc.Response {
			token, _ := jsonrpc.Lookup(m.Raw, m.Params, "progressToken")
			l.mu.Lock()
			l.progress[string(token.Of(m.Raw))]++
			l.mu.Unlock()
			continue
		}
		id := string(m.ID.Of(m.Raw))
		l.mu.Lock()
		replied, known := l.asked[id]
		l.replies[id] = append(l.replies[id], string(line[:min(len(line), 400)]))
		again := len(l.replies[id]) > 1
		l.mu.Unlock()
		switch {
		case !known:
			l.t.Errorf("%s: a reply nobody asked for: %.200s", l.name, line)
		case again:
			l.t.Errorf("%s: another reply: %.200s", l.name, line)
		default:
			close(replied)
		}
	}
}

// ask sends a request under a key and waits for the reply.
func (l *loaded) ask(key, method, params string) string {
	id := strconv.Quote(key)
	replied := make(chan struct{})
	l.mu.Lock()
	l.asked[id] = replied
	_, err := fmt.Fprintf(l.c.stdin, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", id, method, params)
	l.mu.Unlock()
	if err != nil {
		l.t.Errorf("%s: %v", key, err)
		return ""
	}
	select {
	case <-replied:
	case <-time.After(2 * patience):
		l.t.Errorf("%s was not answered", key)
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.replies[id][0]
}

// call runs the witness's tool.
func (l *loaded) call(key string, millis, size int) string {
	return l.ask(key, "tools/call", fmt.Sprintf(`{"name":"w__run","arguments":{"key":%q,"millis":%d,"size":%d}}`, key, millis, size))
}

func (l *loaded) greet() {
	l.ask("hello of "+l.name, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"loaded","version":"1"}}`)
}

// killCounts is how what was asked under random kills went.
type killCounts struct {
	mu                               sync.Mutex
	results, mayHaveRun, not, others int
}

// judge compares the reply to a call with what ran.
func (k *killCounts) judge(t *testing.T, key, reply string, ran int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case ran > 1:
		t.Errorf("%s ran %d times", key, ran)
	case strings.Contains(reply, `"result":{"content"`) && strings.Contains(reply, `"text":"`+key+" "):
		k.results++
		if ran != 1 {
			t.Errorf("%s has a result and ran %d times", key, ran)
		}
	case strings.Contains(reply, "may have run"):
		k.mayHaveRun++
	case strings.Contains(reply, "othing was called"), strings.Contains(reply, "not sent"), strings.Contains(reply, "there is no tool"):
		k.not++
		if ran != 0 {
			t.Errorf("%s ran, and the reply says it did not: %s", key, reply)
		}
	default:
		k.others++
		t.Logf("%s: %s", key, reply)
	}
}

// The app is killed again and again (MCP_FUNNEL_KILLS times) while several sessions
// have requests open: before a call is delivered, after it, in the middle of a large
// answer, during the handshake. Each request gets exactly one reply, whole, and no
// call runs twice.
func TestInvariant5_KillsAtRandomMoments(t *testing.T) {
	kills := 30
	if text := os.Getenv("MCP_FUNNEL_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	s := newWitnessed(t)
	ctx, stop := context.WithCancel(t.Context())
	var counts killCounts
	var load sync.WaitGroup
	asked := make(chan [2]string, 100_000)
	for n := range 4 {
		l := s.loadedClient(fmt.Sprintf("s%d", n))
		l.greet()
		for lane := range 3 {
			load.Go(func() { l.loadUntil(ctx, fmt.Sprintf("s%d.%d", n, lane), asked) })
		}
	}
	begun, killed, last := time.Now(), 0, 0
	for killed < kills {
		s.eventuallyTrue("another app runs", func() bool { return s.appPID() != 0 && s.appPID() != last })
		pid := s.appPID()
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		if pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed, last = killed+1, pid
		}
	}
	took := time.Since(begun)
	stop()
	load.Wait()
	close(asked)
	ran := s.ran()
	calls := 0
	for pair := range asked {
		calls++
		counts.judge(t, pair[0], pair[1], ran[pair[0]])
	}
	t.Logf("%d kills in %s, %d calls: %d results, %d may have run, %d certainly not, %d others",
		killed, took.Round(time.Second), calls, counts.results, counts.mayHaveRun, counts.not, counts.others)
	if counts.results == 0 || counts.mayHaveRun == 0 {
		t.Errorf("the load was not what it should be")
	}
}

// loadUntil asks one thing after the other until ctx ends.
func (l *loaded) loadUntil(ctx context.Context, name string, asked chan<- [2]string) {
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("%s-%d", name, i)
		switch rand.IntN(10) {
		case 0:
			if reply := l.ask(key, "tools/list", "{}"); !strings.Contains(reply, `"result"`) {
				l.t.Errorf("%s: a list: %s", key, reply)
			}
		case 1:
			if reply := l.ask(key, "ping", "{}"); !strings.Contains(reply, `"result":{}`) {
				l.t.Errorf("%s: a ping: %s", key, reply)
			}
		case 2:
			asked <- [2]string{key, l.call(key, 0, 5<<20)}
		default:
			asked <- [2]string{key, l.call(key, rand.IntN(30), rand.IntN(2000))}
		}
	}
}
