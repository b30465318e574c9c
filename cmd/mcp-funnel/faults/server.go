//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	ossignal "os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The modes in which the server runs.
const (
	modePlain = "plain"
	// modeExit: it complains on stderr and exits with 3.
	modeExit = "exit"
	// modeSlow: it takes its time before it reads anything.
	modeSlow = "slow"
	// modeCrash: it exits some time after its tools were listed.
	modeCrash = "crash"
	// modeDeaf: it ends neither with its input nor upon SIGTERM.
	modeDeaf = "deaf"
	// modeNoise: it talks on stdout before each answer.
	modeNoise = "noise"
	// modeParent: it has a child that stays and holds its pipes; modeDeafParent: one
	// that ignores SIGTERM as well.
	modeParent, modeDeafParent = "parent", "deaf-parent"
	// modeStay and modeDeafStay are those children.
	modeStay, modeDeafStay = "stay", "deaf-stay"
	// modeHTTP: the server speaks HTTP at -listen instead.
	modeHTTP = "http"
)

// exitCode is that of modeExit.
const exitCode = 3

// complaint is what modeExit says on stderr.
const complaint = "fault: the database is not there"

// floodSize is how much the tool flood writes to stderr.
const floodSize = 16 << 20

// brokenServer is the server that breaks, on stdio.
type brokenServer struct {
	mode   string
	length time.Duration

	mu        sync.Mutex
	out       *os.File
	cancelled int
}

// runServer serves until in ends.
func runServer(args []string, in io.Reader) error {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	mode := flags.String("mode", modePlain, "what is wrong with it")
	length := flags.Duration("for", 0, "how long")
	starts := flags.String("starts", "", "a file that gets a line for each start")
	listen := flags.String("listen", "127.0.0.1:0", "where to listen, in mode http")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := noteStart(*starts); err != nil {
		return err
	}
	s := &brokenServer{mode: *mode, length: *length, out: os.Stdout}
	switch *mode {
	case modePlain, modeNoise, modeCrash:
	case modeHTTP:
		return servePeer(*listen)
	case modeExit:
		return s.exit()
	case modeSlow:
		<-time.After(*length)
	case modeDeaf:
		ossignal.Ignore(syscall.SIGTERM)
		defer stay() // whatever happens to its input
	case modeParent:
		return errors.Join(startChild(modeStay), s.serve(in))
	case modeDeafParent:
		return errors.Join(startChild(modeDeafStay), s.serve(in))
	case modeDeafStay:
		ossignal.Ignore(syscall.SIGTERM)
		stay()
		return nil
	case modeStay:
		stay()
		return nil
	default:
		return fmt.Errorf("%w: %s", errMode, *mode)
	}
	return s.serve(in)
}

// stay does nothing, for longer than any trial takes; not for ever, for the case that
// nobody ends it.
func stay() { <-time.After(2 * mostTime) }

// exit ends as a server does that cannot start.
func (s *brokenServer) exit() error {
	fmt.Fprintln(os.Stderr, complaint)
	os.Exit(exitCode) //nolint:forbidigo // it is what is tried
	return nil
}

// noteStart adds the pid to the file, if there is one.
func noteStart(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("noting the start: %w", err)
	}
	_, err = fmt.Fprintln(file, os.Getpid())
	return errors.Join(err, file.Close())
}

// startChild starts a child that nobody waits for and that has our pipes.
func startChild(mode string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program's file: %w", err)
	}
	cmd := exec.Command(self, "server", "-mode", mode)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting a child: %w", err)
	}
	return nil
}

// incoming is what the server needs to know of a message.
type incoming struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name            string
		ProtocolVersion string
	}
}

// toolNames are those of the server; see callTool.
const toolNames = "pid hang mute flood cancelled"

// serve answers until in ends.
func (s *brokenServer) serve(in io.Reader) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
		var m incoming
		if err := json.Unmarshal(line, &m); err != nil {
			continue
		}
		switch result := s.handle(m); {
		case result == "" || m.ID == nil:
		default:
			s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
		}
		if s.mode == modeCrash && m.Method == "tools/list" {
			<-time.After(s.length)
			return nil
		}
	}
}

// write writes a line, in mode noise after other ones. That nobody reads shows at the
// end of the input.
func (s *brokenServer) write(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mode == modeNoise {
		_, _ = io.WriteString(s.out, "Listening…\n\x1b[31mwarn\x1b[0m {\"level\":\"debug\"\n[]\n{}\nnull\n\x00\xff\xfe\n"+strings.Repeat("x", 100<<10)+"\n")
	}
	_, _ = io.WriteString(s.out, line+"\n")
}

// handle returns the result for a request; "" is no answer.
func (s *brokenServer) handle(m incoming) string {
	switch m.Method {
	case "initialize":
		return initializeResult(m.Params.ProtocolVersion)
	case "tools/list":
		return toolList(strings.Fields(toolNames))
	case "tools/call":
		return s.callTool(m.Params.Name)
	case "notifications/cancelled":
		s.mu.Lock()
		s.cancelled++
		s.mu.Unlock()
		return ""
	}
	return "{}"
}

// callTool carries out a call.
func (s *brokenServer) callTool(name string) string {
	switch name {
	case "hang":
		return ""
	case "mute": // its output ends, and it goes on
		_ = s.out.Close()
		return ""
	case "flood":
		line := strings.Repeat("e", 1<<10-1) + "\n"
		for range floodSize / len(line) {
			_, _ = io.WriteString(os.Stderr, line)
		}
	case "cancelled":
		s.mu.Lock()
		defer s.mu.Unlock()
		return textResult(fmt.Sprint(s.cancelled))
	}
	return textResult(fmt.Sprint(os.Getpid()))
}

func initializeResult(version string) string {
	return fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"faults","version":"1"}}`, version)
}

func toolList(names []string) string {
	tools := make([]string, 0, len(names))
	for _, name := range names {
		tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
	}
	return `{"tools":[` + strings.Join(tools, ",") + `]}`
}

func textResult(text string) string {
	return fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text)
}
