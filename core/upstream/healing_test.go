package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/config"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/status"
)

func TestMachineRestartsForFilesAtMostOnceInFiveSeconds(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(testPolicy(), half, now)
	attempts := 0
	do := func(in input) {
		if m.step(in, now) == doAttempt {
			attempts++
		}
	}
	do(inEnabled)
	for range 50 { // each start touches a file, half a second later
		now = now.Add(500 * time.Millisecond)
		do(inConnected)
		now = now.Add(500 * time.Millisecond)
		do(inTouched)
		do(inStopped)
		do(inTimer)
	}
	if attempts > 1+50/5 || m.state != status.SlowProbe {
		t.Errorf("%d attempts within 50 s, state %s, attempt counter %d", attempts, m.state, m.attempt)
	}
}

func TestMachineTouchedDuringALogInTriesNoMore(t *testing.T) {
	now := time.Unix(0, 0)
	m := newMachine(testPolicy(), half, now)
	m.step(inEnabled, now)
	m.step(inRefused, now)
	now = m.wakeAt
	m.step(inTimer, now) // the hourly try
	tries := 1
	for range 5 {
		now = now.Add(time.Second)
		m.step(inTouched, now)
		if m.step(inStopped, now) == doAttempt {
			tries++
		}
	}
	if tries > 1 {
		t.Errorf("%d tries within 5 s of a server that needs a log-in", tries)
	}
}

// A server that writes into the folder that is watched is not restarted without end.
func TestServerThatWritesIntoItsWatchedFolder(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, "ok", func(s *config.Server) {
		s.Args = []string{"-c", "date +%N > " + filepath.Join(dir, "server.log") + "; exec " + os.Args[0]}
		s.Command = "sh"
		s.Watch = []string{dir}
	})
	r.connected()
	time.Sleep(6 * time.Second)
	r.stop()
	if starts := strings.Count(r.appLog.String(), "event=server.connected"); starts > 4 {
		t.Errorf("started %d times within 6 s", starts)
	}
}

// oddPeer is an HTTP server that answers pings with answer.
func oddPeer(t *testing.T, answer func(w http.ResponseWriter)) *link {
	t.Helper()
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.first = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
			if m.MethodName() == string(mcp.MethodPing) {
				answer(w)
				return true
			}
			return false
		}
	})
	l, _ := linkedTo(t, endpointOf(t, peer.URL))
	return l
}

// An answer that is no proper pong is a sign of life.
func TestOddAnswersToPingsAreSignsOfLife(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"202":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) },
		"empty": func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) },
		"403":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) },
		"400":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) },
		"null id": func(w http.ResponseWriter) {
			writeJSON(w, http.StatusOK, `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := oddPeer(t, answer).call(context.Background(), mcp.MethodPing, nil)
			if unanswered(err) {
				t.Errorf("counts as unanswered: %v", err)
			}
		})
	}
}

func TestSeveralGatewayErrorsAtOnceAreNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := newFakeRig(t, 30*time.Second, func(f *fakeTransport, m jsonrpc.Message) []byte {
			if n := m.MethodName(); n == "tools/call" || n == "ping" {
				id, _ := parseID(m.ID.Of(m.Raw))
				go f.sink.Failed(id, &statusError{status: 503, text: "busy", retryAfter: time.Minute})
				return nil
			}
			return healthy(f, m)
		})
		for range 3 {
			in := newInbox()
			r.upstream.Forward(request(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, in))
			time.Sleep(20 * time.Millisecond)
			synctest.Wait()
			if s := r.server(); s.State != status.Connected {
				t.Errorf("lost after %s: %s", time.Since(began), s.LastError)
				break
			}
		}
		time.Sleep(60 * time.Second) // lost after three pings, and left alone for a minute
		synctest.Wait()
		if s := r.server(); s.State != status.Reconnecting {
			t.Errorf("after three pings it is %s", s.State)
		}
		if len(r.opened) > 1 {
			t.Errorf("tried again %s after Retry-After: 60", r.opened[1].began.Sub(began))
		}
	})
}

// A server that is busy may say so in an error of its own.
func TestRetryAfterIsHeededWhateverTheBody(t *testing.T) {
	for value, want := range map[string]time.Duration{"60": time.Minute, "99999999999": maxHold} {
		for _, own := range []bool{false, true} {
			peer := newHTTPPeer(t, func(p *httpPeer) {
				p.first = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
					w.Header().Set("Retry-After", value)
					body := "busy"
					if own {
						body = string(jsonrpc.NewError(m.ID.Of(m.Raw), &jsonrpc.Error{Code: -32000, Message: "rate limit"}))
					}
					writeJSON(w, http.StatusTooManyRequests, body)
					return true
				}
			})
			tr, err := openHTTP(context.Background(), endpointOf(t, peer.URL))
			if err != nil {
				t.Fatal(err)
			}
			l := newLink("s", 0)
			l.transport = tr
			tr.Start(l)
			_, err = l.greet(context.Background(), mcp.Implementation{Name: "t", Version: "1"})
			refused, ok := errors.AsType[*statusError](err)
			if !ok || refused.retryAfter != want {
				t.Errorf("Retry-After %s, own body %v: %v", value, own, err)
			}
			tr.Close()
		}
	}
}

// counter counts the replies of one call.
type counter struct {
	inbox

	n    atomic.Int32
	last atomic.Pointer[string]
}

func (c *counter) Reply(_ *Request, b []byte) {
	s := string(b)
	c.last.Store(&s)
	c.n.Add(1)
}

// Servers die all the time under load: nothing runs twice, every call has one reply.
func TestC84_NoCallRunsTwiceWhileServersDie(t *testing.T) {
	r := newRig(t, "ok", func(s *config.Server) {
		s.Reconnect.MaxAttempts = 1000
		s.Reconnect.InitialDelay, s.Reconnect.MaxDelay = 10*time.Millisecond, 10*time.Millisecond
	})
	r.connected()
	var mu sync.Mutex
	var callers []*counter
	end := time.Now().Add(4 * time.Second)
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				c := &counter{}
				size := 0
				if rand.IntN(10) == 0 {
					size = rand.IntN(200 << 10)
				}
				m, err := jsonrpc.Parse([]byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"c%d-%d","arguments":{"p":"%s"}}}`, i, g, i, strings.Repeat("x", size))))
				if err != nil {
					panic(err)
				}
				q := &Request{Message: m, Label: "x", Caller: c}
				mu.Lock()
				callers = append(callers, c)
				mu.Unlock()
				r.upstream.Forward(q)
				time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
			}
		})
	}
	wg.Go(func() {
		for time.Now().Before(end) {
			time.Sleep(time.Duration(20+rand.IntN(150)) * time.Millisecond)
			s, _ := r.board.Snapshot().Server("s")
			if s.PID > 1 {
				switch rand.IntN(3) {
				case 0:
					_ = syscall.Kill(s.PID, syscall.SIGSTOP)
					time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
					_ = syscall.Kill(s.PID, syscall.SIGKILL)
				default:
					_ = syscall.Kill(s.PID, syscall.SIGKILL)
				}
			}
		}
	})
	wg.Wait()
	time.Sleep(7 * time.Second)
	r.stop()
	none, many, ok, maybe, notcalled := 0, 0, 0, 0, 0
	for _, c := range callers {
		switch n := c.n.Load(); {
		case n == 0:
			none++
		case n > 1:
			many++
		}
		if p := c.last.Load(); p != nil {
			switch {
			case strings.Contains(*p, "may have run"):
				maybe++
			case strings.Contains(*p, "was not called"):
				notcalled++
			default:
				ok++
			}
		}
	}
	content, _ := os.ReadFile(r.notes)
	seen := map[string]int{}
	for line := range strings.Lines(string(content)) {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == "call" {
			seen[f[2]]++
		}
	}
	twice := 0
	for _, n := range seen {
		if n > 1 {
			twice++
		}
	}
	t.Logf("%d calls: %d without reply, %d with several, ok %d, maybe %d, not called %d; ran %d, twice %d; starts %d", len(callers), none, many, ok, maybe, notcalled, len(seen), twice, strings.Count(r.appLog.String(), "event=server.connected"))
	if none+many+twice > 0 {
		t.Error("broken")
	}
}
