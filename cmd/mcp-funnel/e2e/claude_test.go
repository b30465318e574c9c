//go:build e2e && linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-funnel/cmd/mcp-funnel/e2e/parts"
	"mcp-funnel/core"
)

// demoServer is a config with the program's own server, and with one by the
// TypeScript SDK that has odd names and keeps a list of what it ran.
const demoServer = `{
  "mcpServers": {
    "demo": { "command": "$PROGRAM", "args": ["demo-server"] },
    "odd":  { "command": "$NODE", "args": ["$DIR/js/server.mjs", "$DIR/witness"] }
  }
}`

// TestClaude drives an unmodified Claude Code through the bridge, which starts the
// app by itself.
func TestClaude(t *testing.T) {
	for _, s := range []struct {
		name  string
		story func(*user) string
	}{
		{"call", claudeCall},
		{"between", claudeServerKilledBetweenTurns},
		{"during", claudeServerKilledDuringCall},
		{"app", claudeAppKilled},
		{"appduring", claudeAppKilledDuringCall},
		{"replaced", claudeAppReplaced},
		{"quit", claudeAppQuitAndStarted},
		{"late", claudeAppStartedLater},
		{"three", claudeThreeSessions},
		{"names", claudeNames},
	} {
		play(t, s.name, demoServer, []parts.Part{parts.Node(), claudeCode, sdk1}, func(u *user) string {
			u.script("server.mjs", sdk1)
			return s.story(u)
		})
	}
}

// script puts a script of testdata where it finds the packages of a part.
func (u *user) script(name string, packages parts.Part) string {
	u.t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		u.t.Fatal(err)
	}
	if err := os.MkdirAll(u.path("js"), 0o700); err != nil {
		u.t.Fatal(err)
	}
	u.write("js/"+name, string(content))
	if err := os.Symlink(packages.Path(), u.path("js/node_modules")); err != nil {
		u.t.Fatal(err)
	}
	return u.path("js/" + name)
}

// call is a step that calls a tool of the funnel.
func call(name string) step { return step{Call: tool{Name: "mcp__funnel__" + name}} }

// gated is a step that waits for its gate.
func (s step) gated(gate string) step {
	s.Gate = gate
	return s
}

func claudeCall(u *user) string {
	echo := call("demo__echo")
	echo.Input = map[string]any{"message": "round trip: ü ☃ \u2028 \\n"}
	s := u.claude("one", echo)
	s.succeeds(1, "round trip: ü ☃ \u2028 \\n")
	s.wait()
	return "Claude Code's bridge started the app, and a tool call came back unchanged"
}

func claudeServerKilledBetweenTurns(u *user) string {
	s := u.claude("one", call("demo__calls"), call("demo__calls").gated("killed"))
	first := s.succeeds(1, "calls=1 pid=")
	server := u.server("demo", 0)
	process{pid: server.PID}.kill()
	s.open("killed")
	second := s.succeeds(2, "calls=1 pid=")
	s.wait()
	if first == second {
		u.t.Errorf("both calls were answered by the same process: %s", first)
	}
	return fmt.Sprintf("killed between two turns: %s, then %s, in one session", first, second)
}

func claudeServerKilledDuringCall(u *user) string {
	s := u.claude("one", call("odd__slow"), call("odd__quick"))
	u.eventually("the call runs", func() bool { return len(u.witness()) == 1 })
	began := time.Now()
	process{pid: u.server("odd", 0).PID}.kill()
	broken := s.result(1)
	took := time.Since(began)
	if !broken.Error || !strings.Contains(broken.Text, "odd") {
		u.t.Errorf("the call whose server was killed: %+v, want an error that names the server", broken)
	}
	s.succeeds(2, "called as quick")
	s.wait()
	if ran := u.witness(); len(ran) != 2 || !strings.HasPrefix(ran[0], "slow ") || !strings.HasPrefix(ran[1], "quick ") {
		u.t.Errorf("the server ran %q, want slow and quick, once each", ran)
	}
	return fmt.Sprintf("killed during a call: after %d ms %q; the next call succeeded, nothing ran twice", took.Milliseconds(), broken.Text)
}

// witness has one line for each call that the odd server ran.
func (u *user) witness() []string {
	u.t.Helper()
	content, err := os.ReadFile(u.path("witness"))
	if err != nil && !os.IsNotExist(err) {
		u.t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(content)))
}

func claudeAppKilled(u *user) string {
	s := u.claude("one", call("demo__calls"), call("demo__calls").gated("killed"))
	first := s.succeeds(1, "calls=1 pid=")
	odd := u.server("odd", 0).PID // so that both servers have to be cleaned up
	before := u.status("the app runs", func(core.Report) bool { return true })
	process{pid: before.PID}.kill()
	s.open("killed")
	second := s.succeeds(2, "calls=1 pid=")
	after := u.status("the app runs again", func(core.Report) bool { return true })
	u.server("odd", odd)
	s.wait()
	if first == second || before.PID == after.PID {
		u.t.Errorf("app %d and %d, servers %q and %q; want others after the kill", before.PID, after.PID, first, second)
	}
	for _, server := range []string{" demo-server", "server.mjs"} {
		if running := u.running(server); len(running) > 1 {
			u.t.Errorf("of the killed app's life, beside the new ones: %v", running)
		}
	}
	return "the app killed with -9 between two turns: the next call in the same session was answered by new processes, the old ones are gone"
}

// bridge is the one bridge process that runs; it has to stay the same.
func (u *user) bridge() process {
	u.t.Helper()
	var bridges []process
	u.eventually("one bridge runs", func() bool {
		bridges = u.running("mcp-funnel bridge")
		return len(bridges) == 1
	})
	return bridges[0]
}

// sameBridge checks that the session was not restarted.
func (u *user) sameBridge(before process) {
	u.t.Helper()
	if after := u.bridge(); after.pid != before.pid {
		u.t.Errorf("the bridge was restarted: %s, then %s", before, after)
	}
}

func claudeAppKilledDuringCall(u *user) string {
	s := u.claude("one", call("odd__slow"), call("odd__quick"), call("demo__calls").gated("checked"))
	u.eventually("the call runs", func() bool { return len(u.witness()) == 1 })
	bridge := u.bridge()
	began := time.Now()
	process{pid: u.status("the app runs", func(core.Report) bool { return true }).PID}.kill()
	broken := s.result(1)
	took := time.Since(began)
	if !broken.Error || !strings.Contains(broken.Text, "may have run") {
		u.t.Errorf("the call during which the app was killed: %+v", broken)
	}
	s.succeeds(2, "called as quick")
	u.sameBridge(bridge)
	s.open("checked")
	s.succeeds(3, "calls=1 pid=")
	s.wait()
	if ran := u.witness(); len(ran) != 2 {
		u.t.Errorf("the server ran %q, want slow and quick, once each", ran)
	}
	return fmt.Sprintf("the app killed during a call: an error after %d ms; the next calls in the same session succeeded, nothing ran twice", took.Milliseconds())
}

func claudeAppReplaced(u *user) string {
	s := u.claude("one", call("demo__calls"), call("demo__calls").gated("replaced"), call("odd__quick").gated("checked"))
	first := s.succeeds(1, "calls=1 pid=")
	bridge := u.bridge()
	before := u.status("the app runs", func(core.Report) bool { return true })
	u.start("app", u.command(program, "serve", "--replace"))
	u.status("another app runs", func(r core.Report) bool { return r.PID != before.PID })
	s.open("replaced")
	second := s.succeeds(2, "calls=1 pid=")
	u.sameBridge(bridge)
	s.open("checked")
	s.succeeds(3, "called as quick")
	s.wait()
	if first == second {
		u.t.Errorf("both calls were answered by the same process: %s", first)
	}
	return "the app replaced with --replace between two turns: the same session goes on with the new one and its servers"
}

func claudeAppQuitAndStarted(u *user) string {
	s := u.claude("one", call("demo__calls"), call("demo__calls").gated("quit"), call("demo__calls").gated("started"), call("odd__quick").gated("checked"))
	s.succeeds(1, "calls=1 pid=")
	bridge := u.bridge()
	u.must("quit", u.command(program, "quit"))
	s.open("quit")
	refused := s.result(2)
	if !refused.Error || !strings.Contains(refused.Text, "Start it") {
		u.t.Errorf("without the app: %+v, want an error that says what to do", refused)
	}
	if out, err := u.command(program, "status").Output(); err == nil {
		u.t.Errorf("somebody started the app again: %s", out)
	}
	u.serve()
	s.open("started")
	s.succeeds(3, "calls=1 pid=")
	u.sameBridge(bridge)
	s.open("checked")
	s.succeeds(4, "called as quick")
	s.wait()
	return fmt.Sprintf("the app quit: %q; after it was started again the same session went on", refused.Text)
}

func claudeAppStartedLater(u *user) string {
	s := u.claudeWith("one", []string{"bridge", "--no-start"},
		call("demo__calls").gated("started"), call("demo__calls").gated("told"), call("odd__quick").gated("checked"))
	if name := s.turn(1).offered("How many calls"); name != "" {
		u.t.Errorf("%s is offered before there is an app", name)
	}
	bridge := u.bridge()
	u.serve()
	u.status("the session is attached", func(r core.Report) bool { return len(r.Sessions) == 1 })
	s.open("started")
	// Whether Claude Code knows the tools within the very turn is its own affair.
	early := s.result(1)
	if s.turn(2).offered("How many calls") == "" {
		u.t.Error("the tools are not offered in the turn after the app was started")
	}
	s.open("told")
	s.succeeds(2, "calls=")
	u.sameBridge(bridge)
	s.open("checked")
	s.succeeds(3, "called as quick")
	s.wait()
	return fmt.Sprintf("the app started after the session: its tools are there in the next turn (in the same one: %.60q)", early.Text)
}

func claudeThreeSessions(u *user) string {
	var sessions []*session
	for _, name := range []string{"one", "two", "three"} {
		sessions = append(sessions, u.claude(name, call("demo__calls"), call("odd__quick").gated("counted")))
	}
	pids := map[string]bool{}
	for _, s := range sessions {
		_, pid, _ := strings.Cut(s.succeeds(1, "calls="), " ")
		pids[pid] = true
	}
	u.server("odd", 0)
	u.status("three sessions", func(r core.Report) bool { return len(r.Sessions) == 3 })
	if len(pids) != 1 {
		u.t.Errorf("the sessions were answered by %v, want one process", pids)
	}
	for _, server := range []string{" demo-server", "server.mjs"} {
		if running := u.running(server); len(running) != 1 {
			u.t.Errorf("processes of one server: %v", running)
		}
	}
	for _, s := range sessions {
		s.open("counted")
	}
	for _, s := range sessions {
		s.succeeds(2, "called as quick")
		s.wait()
	}
	return "three sessions at once, one process for each of the two servers"
}

func claudeNames(u *user) string {
	about := []string{"ninety characters", "a size", "a greeting"}
	original := []string{"long_" + strings.Repeat("n", 85), "größe_日本語", "grüße_日本語"}
	var steps []step
	for _, words := range about {
		steps = append(steps, step{Call: tool{About: words}})
	}
	s := u.claude("one", steps...)
	names := map[string]bool{}
	for i, words := range about {
		name := s.turn(1).offered(words)
		if name == "" {
			u.t.Errorf("%s is not offered", original[i])
		}
		names[name] = true
		s.succeeds(i+1, "called as "+original[i])
	}
	s.wait()
	if len(names) != len(about) {
		u.t.Errorf("the tools are offered under %d names: %v", len(names), names)
	}
	return fmt.Sprintf("names of %d characters and in Unicode are offered and called by their own names", len(original[0]))
}
