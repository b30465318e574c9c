//go:build e2e && linux

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mcp-funnel/cmd/mcp-funnel/e2e/parts"
)

// step is what the scripted model does in one turn; see testdata/api.mjs.
type step struct {
	Call  tool           `json:"call"`
	Input map[string]any `json:"input,omitempty"`
	// Gate: the model answers when the test has opened it.
	Gate string `json:"gate,omitempty"`
}

// tool is the one to call, by its name or by words of its description.
type tool struct {
	Name  string `json:"name,omitempty"`
	About string `json:"about,omitempty"`
}

// turn is what Claude Code told the model.
type turn struct {
	Tools []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"tools"`
	// Results are those of the calls of the turn before.
	Results []result `json:"results"`
}

type result struct {
	Text  string `json:"text"`
	Error bool   `json:"error"`
}

// offered is the name under which Claude Code offers the tool with these words in
// its description; "" if it does not.
func (t turn) offered(about string) string {
	for _, tool := range t.Tools {
		if strings.Contains(tool.Description, about) {
			return tool.Name
		}
	}
	return ""
}

// session is one run of Claude Code with a model of its own.
type session struct {
	u    *user
	name string
	end  <-chan error
}

// claude starts Claude Code, unmodified, with the bridge as its only server, and a
// model that takes the given steps. Everything is kept under the session's name.
func (u *user) claude(name string, steps ...step) *session {
	u.t.Helper()
	return u.claudeWith(name, []string{"bridge"}, steps...)
}

// claudeWith is claude with other arguments of the program that is the server.
func (u *user) claudeWith(name string, server []string, steps ...step) *session {
	u.t.Helper()
	s := &session{u: u, name: name}
	if err := os.MkdirAll(s.gates(), 0o700); err != nil {
		u.t.Fatal(err)
	}
	s.write("steps.json", steps)
	s.write("mcp.json", map[string]any{"mcpServers": map[string]any{
		"funnel": map[string]any{"command": u.launcher, "args": server},
	}})
	cmd := u.command(claudeCode.Path(".bin", "claude"), "--print", "go", "--mcp-config", s.path("mcp.json"), "--strict-mcp-config",
		"--allowedTools", "mcp__funnel", "--output-format", "stream-json", "--verbose")
	cmd.Env = append(cmd.Env, "ANTHROPIC_BASE_URL="+s.model(), "ANTHROPIC_API_KEY=none",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
		"ENABLE_TOOL_SEARCH=false") // so that the model is told of all tools
	s.end = u.start(name+"-claude", cmd)
	return s
}

// model starts the scripted model and returns its URL. It ends with the test.
func (s *session) model() string {
	s.u.t.Helper()
	script, err := filepath.Abs("testdata/api.mjs")
	if err != nil {
		s.u.t.Fatal(err)
	}
	cmd := s.u.command(parts.NodeProgram(), script, s.path("steps.json"), s.path("turns.jsonl"), s.gates())
	// It is no process of the user's that a quit would have to end.
	cmd.Env = nil
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.u.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.u.t.Fatal(err)
	}
	cmd.Stderr = s.u.log(s.name + "-model.err")
	if err := cmd.Start(); err != nil {
		s.u.t.Fatal(err)
	}
	s.u.t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		s.u.t.Fatal("the model's URL:", err)
	}
	return strings.TrimSpace(url)
}

// path is that of a file of the session, which is kept after a failure.
func (s *session) path(name string) string { return filepath.Join(s.u.out, s.name+"-"+name) }

// gates is the folder whose files are the open gates.
func (s *session) gates() string { return s.u.path("gates/" + s.name) }

func (s *session) write(name string, value any) {
	s.u.t.Helper()
	text, err := json.MarshalIndent(value, "", "  ")
	if err == nil {
		err = os.WriteFile(s.path(name), text, 0o600)
	}
	if err != nil {
		s.u.t.Fatal(err)
	}
}

// turn waits until the model is asked for the n-th time, from 1, and returns what
// it was told.
func (s *session) turn(n int) turn {
	s.u.t.Helper()
	var told turn
	s.u.eventually(fmt.Sprintf("turn %d of session %s", n, s.name), func() bool {
		content, err := os.ReadFile(s.path("turns.jsonl"))
		if err != nil {
			return false
		}
		lines := bytes.Split(content, []byte("\n"))
		if len(lines) <= n { // the last one is empty, or not complete
			return false
		}
		if err := json.Unmarshal(lines[n-1], &told); err != nil {
			s.u.t.Fatal(err)
		}
		return true
	})
	return told
}

// result is that of the n-th call, from 1.
func (s *session) result(n int) result {
	s.u.t.Helper()
	told := s.turn(n + 1)
	if len(told.Results) != 1 {
		s.u.t.Fatalf("session %s: call %d has results %+v", s.name, n, told.Results)
	}
	return told.Results[0]
}

// succeeds checks that the n-th call was no error, with want in its text, and
// returns the text.
func (s *session) succeeds(n int, want string) string {
	s.u.t.Helper()
	r := s.result(n)
	if r.Error || !strings.Contains(r.Text, want) {
		s.u.t.Fatalf("session %s: call %d: %+v, want %q", s.name, n, r, want)
	}
	return r.Text
}

// open opens a gate.
func (s *session) open(gate string) {
	s.u.t.Helper()
	if err := os.WriteFile(filepath.Join(s.gates(), gate), nil, 0o600); err != nil {
		s.u.t.Fatal(err)
	}
}

// wait waits until Claude Code has ended well.
func (s *session) wait() {
	s.u.t.Helper()
	select {
	case err := <-s.end:
		if err != nil {
			s.u.t.Fatalf("session %s: Claude Code: %v", s.name, err)
		}
	case <-time.After(patience):
		s.u.t.Fatalf("session %s: Claude Code did not end", s.name)
	}
}
