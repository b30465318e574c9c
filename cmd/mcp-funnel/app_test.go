//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcp-funnel/core"
	"mcp-funnel/core/status"
)

func TestToolsAreListedAndCalledThroughTheBridge(t *testing.T) {
	s := newSandbox(t, oneServer)
	s.start("serve")
	c := s.client()
	tools, err := c.tools(context.Background())
	if err != nil || len(tools) != 6 || tools[0] != "demo__echo" {
		t.Fatalf("tools %v, %v", tools, err)
	}
	if got := s.must(c, "demo__add", `{"a":2,"b":40}`); got != "42" {
		t.Errorf("2+40 = %s", got)
	}
	r := s.report(func(r core.Report) bool { return len(r.Sessions) == 1 })
	if got := r.Sessions[0]; got.Client.Name != "mcp-funnel-demo" || got.Calls != 1 || got.PID != c.cmd.Process.Pid {
		t.Errorf("session %+v", got)
	}
}

func TestC40_FiveMegabyteLinesBothWays(t *testing.T) {
	s := newSandbox(t, oneServer)
	s.start("serve")
	c := s.client()
	payload := strings.Repeat("0123456789abcdef", 5<<20/16)
	got := s.must(c, "demo__echo", `{"message":"`+payload+`"}`)
	if sha256.Sum256([]byte(got)) != sha256.Sum256([]byte(payload)) {
		t.Errorf("5 MB came back changed: %d bytes", len(got))
	}
	if got := s.must(c, "demo__echo", `{"message":"small"}`); got != "small" {
		t.Errorf("the next small call got %q", got)
	}
}

// Eight servers, one with a missing binary, one that exits 1 at once.
func TestC71_SixOfEightServersServe(t *testing.T) {
	var entries []string
	for i := range 6 {
		entries = append(entries, fmt.Sprintf(`"ok%d": {"command": "$PROGRAM", "args": ["demo-server"]}`, i))
	}
	entries = append(entries, `"missing": {"command": "no-such-binary-anywhere"}`,
		`"exits": {"command": "sh", "args": ["-c", "echo last words >&2; exit 1"]}`)
	s := newSandbox(t, `{"mcpServers": {`+strings.Join(entries, ",")+`}}`)
	s.start("serve")
	r := s.report(func(r core.Report) bool {
		ready := 0
		for _, server := range r.Servers {
			if connected(server) {
				ready++
			}
		}
		return ready == 6
	})
	tools, err := s.client().tools(context.Background())
	if err != nil || len(tools) != 36 {
		t.Errorf("%d tools, %v", len(tools), err)
	}
	exits := s.server("exits", func(s status.Server) bool { return s.LastError != "" })
	if !strings.Contains(exits.LastError, "exit code 1") || !strings.Contains(exits.LastError, "last words") {
		t.Errorf("exits: %q", exits.LastError)
	}
	missing := s.server("missing", func(s status.Server) bool { return s.LastError != "" })
	if !strings.Contains(missing.LastError, "no-such-binary-anywhere") || !strings.Contains(missing.LastError, "/usr/bin") {
		t.Errorf("missing: %q", missing.LastError)
	}
	if len(r.Servers) != 8 {
		t.Errorf("%d servers in status", len(r.Servers))
	}
}

func TestC78_OutageGivesAClearErrorAndEndsByItself(t *testing.T) {
	s := newSandbox(t, oneServer)
	s.start("serve")
	c := s.client()
	s.must(c, "demo__echo", `{"message":"x"}`)
	s.touch("down")
	s.kill(s.server("demo", connected).PID)
	s.server("demo", func(s status.Server) bool { return s.State == status.SlowProbe })
	begun := time.Now()
	_, err := c.call(context.Background(), "demo__echo", `{"message":"x"}`)
	if err == nil || !strings.Contains(err.Error(), `\"demo\"`) || !strings.Contains(err.Error(), "slow probe") {
		t.Errorf("during the outage: %v", err)
	}
	if took := time.Since(begun); took > 6*time.Second {
		t.Errorf("the error took %s", took)
	}
	s.remove("down")
	s.server("demo", connected)
	if got := s.must(c, "demo__echo", `{"message":"back"}`); got != "back" {
		t.Errorf("after the outage: %q", got)
	}
}

func TestC84_CrashingCallIsNotRepeated(t *testing.T) {
	s := newSandbox(t, oneServer)
	s.start("serve")
	c := s.client()
	begun := time.Now()
	_, err := c.call(context.Background(), "demo__crash", `{}`)
	if err == nil || !strings.Contains(err.Error(), "may have run") {
		t.Errorf("the crashing call: %v", err)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
	if got := s.must(c, "demo__calls", `{}`); !strings.HasPrefix(got, "calls=1 ") {
		t.Errorf("the next call, on the new process: %s", got)
	}
}

// stubborn is a server that survives the death of the app and ignores SIGTERM.
const stubborn = `{"mcpServers": {"stubborn": {"command": "sh", "args": ["-c", "trap '' TERM; $PROGRAM demo-server; sleep 600"]}}}`

func TestC124_KilledAppIsReplacedAndItsLeftoversEnded(t *testing.T) {
	s := newSandbox(t, stubborn)
	first := s.start("serve")
	left := s.server("stubborn", connected).PID
	s.kill(first.cmd.Process.Pid)
	<-first.done
	time.Sleep(200 * time.Millisecond)
	if !alive(left) {
		t.Fatal("the leftover ended by itself: this test shows nothing")
	}
	begun := time.Now()
	second := s.launch("serve")
	r := s.report(func(core.Report) bool { return true })
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("answering took %s", took)
	}
	pid, err := os.ReadFile(filepath.Join(s.dir, "run", "mcp-funnel", "funnel.pid"))
	if err != nil || string(pid) != strconv.Itoa(second.cmd.Process.Pid)+"\n" || r.PID != second.cmd.Process.Pid {
		t.Errorf("pid file %q, status %d, process %d, %v", pid, r.PID, second.cmd.Process.Pid, err)
	}
	if again := s.server("stubborn", connected).PID; alive(left) {
		t.Errorf("the old server %d lives beside the new one %d", left, again)
	}
}

func TestC127_TwentyStartsLeaveOneSurvivor(t *testing.T) {
	s := newSandbox(t, "")
	for round := range 3 {
		var apps []*started
		for range 20 {
			apps = append(apps, s.launch("serve"))
		}
		r := s.report(func(core.Report) bool { return true })
		losers := 0
		for _, a := range apps {
			if a.cmd.Process.Pid == r.PID {
				continue
			}
			<-a.done
			if a.cmd.ProcessState.ExitCode() != 0 || !strings.Contains(a.stderr.String(), fmt.Sprintf("already running (pid %d)", r.PID)) {
				t.Errorf("a loser: exit code %d, %s", a.cmd.ProcessState.ExitCode(), a.stderr)
			}
			losers++
		}
		if losers != 19 {
			t.Fatalf("round %d: %d losers", round, losers)
		}
		s.report(func(r2 core.Report) bool { return r2.PID == r.PID })
		s.kill(r.PID) // leaves socket and pid file, stale
	}
}

func TestC132_SecondStartAndCommandsWhileOneIsStopped(t *testing.T) {
	s := newSandbox(t, oneServer)
	a := s.start("serve")
	begun := time.Now()
	_, stderr, code := s.run("serve")
	if code != 0 || !strings.Contains(stderr, fmt.Sprintf("already running (pid %d)", a.cmd.Process.Pid)) {
		t.Errorf("a second start: exit code %d, %s", code, stderr)
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
	if _, _, code = s.run("serve", "--config", filepath.Join(s.dir, "other.json")); code != 1 {
		t.Errorf("a second start with another config: exit code %d", code)
	}
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_, stderr, code = s.run("serve")
	if code != 1 || !strings.Contains(stderr, "stopped") {
		t.Errorf("over a stopped one: exit code %d, %s", code, stderr)
	}
	if _, stderr, code = s.run("status"); code != 1 {
		t.Errorf("status of a stopped one: exit code %d, %s", code, stderr)
	}
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.report(func(r core.Report) bool { return r.PID == a.cmd.Process.Pid })
}

func TestReplaceTakesOverAndBridgesFollow(t *testing.T) {
	s := newSandbox(t, oneServer)
	first := s.start("serve")
	c := s.client()
	s.must(c, "demo__echo", `{"message":"x"}`)
	server := s.server("demo", connected).PID
	second := s.launch("serve", "--replace")
	<-first.done
	if code := first.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the old one ended with %d: %s", code, first.stderr)
	}
	if got := s.must(c, "demo__echo", `{"message":"again"}`); got != "again" {
		t.Errorf("after the replacement: %q", got)
	}
	r := s.report(func(core.Report) bool { return true })
	if r.PID != second.cmd.Process.Pid || alive(server) {
		t.Errorf("pid %d, want %d; old server alive: %v", r.PID, second.cmd.Process.Pid, alive(server))
	}
}

// Ten bridges race to start the app: one app, one server.
func TestTenBridgesStartOneApp(t *testing.T) {
	s := newSandbox(t, oneServer)
	clients := make([]*demoClient, 10)
	for i := range clients {
		clients[i] = s.bridge()
	}
	var racing sync.WaitGroup
	results := make(chan string, len(clients))
	for _, c := range clients {
		racing.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if _, err := c.initialize(ctx); err != nil {
				results <- err.Error()
				return
			}
			text, err := c.call(ctx, "demo__calls", "{}")
			if err != nil {
				text = err.Error()
			}
			results <- text
		})
	}
	racing.Wait()
	close(results)
	pids := map[string]bool{}
	for text := range results {
		_, pid, found := strings.Cut(text, "pid=")
		if !found {
			t.Error(text)
		}
		pids[pid] = true
	}
	if len(pids) != 1 {
		t.Errorf("servers %v", pids)
	}
	r := s.report(func(r core.Report) bool { return len(r.Sessions) == 10 })
	parent, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", r.PID))
	if err != nil || strings.Contains(string(parent), "MCP_FUNNEL_TEST_CLIENT") {
		t.Errorf("the app has the environment of one client: %v", err)
	}
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", r.PID)); err != nil || cwd != filepath.Join(s.dir, "home") {
		t.Errorf("the app works in %s, %v", cwd, err)
	}
	if _, stderr, code := s.run("quit"); code != 0 {
		t.Errorf("quit: %d, %s", code, stderr)
	}
	time.Sleep(500 * time.Millisecond) // long enough for a bridge to start another
	if _, _, code := s.run("status"); code != exitNotRunning {
		t.Errorf("after quit: exit code %d", code)
	}
	for _, c := range clients {
		if !alive(c.cmd.Process.Pid) {
			t.Error("a bridge ended because the app did")
		}
	}
}

func TestInvariant3_NothingIsLeftAfterQuit(t *testing.T) {
	s := newSandbox(t, `{"mcpServers": {
		"a": {"command": "$PROGRAM", "args": ["demo-server"]},
		"wrapped": {"command": "sh", "args": ["-c", "$PROGRAM demo-server; sleep 600"]}}}`)
	a := s.start("serve")
	pids := []int{s.server("a", connected).PID, s.server("wrapped", connected).PID}
	if _, stderr, code := s.run("quit"); code != 0 {
		t.Fatalf("quit: %d, %s", code, stderr)
	}
	for _, pid := range append(pids, a.cmd.Process.Pid) {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	files, err := os.ReadDir(filepath.Join(s.dir, "run", "mcp-funnel"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".lock") {
			t.Errorf("%s is left", f.Name())
		}
	}
}

// Invariant 8: values that could be secrets appear nowhere.
func TestInvariant8_NoSecretIsShown(t *testing.T) {
	s := newSandbox(t, `{"mcpServers": {
		"env": {"command": "sh", "args": ["-c", "echo token is $TOKEN >&2; exit 1"], "env": {"TOKEN": "canary-env-1234"}},
		"arg": {"command": "sh", "args": ["-c", "echo $2 >&2; exit 1", "sh", "--api-key", "canary-arg-1234"]},
		"url": {"type": "http", "url": "http://canaryuser:canary-pass-1234@127.0.0.1:1/mcp?token=canary-query-1234", "headers": {"Authorization": "Bearer canary-header-1234"}}
	}, "reconnect": {"maxAttempts": 1, "initialDelayMs": 20}}`)
	a := s.start("serve")
	for _, name := range []string{"env", "arg", "url"} {
		s.server(name, func(s status.Server) bool { return s.State == status.SlowProbe })
	}
	var texts []string
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"logs", "env"}, {"logs", "arg"}, {"logs", "url"}, {"config", "check"}, {"tools"}} {
		out, errs, _ := s.run(args...)
		texts = append(texts, out, errs)
	}
	logs, err := filepath.Glob(filepath.Join(s.dir, "state", "mcp-funnel", "log", "*"))
	if err != nil || len(logs) < 2 {
		t.Fatalf("logs %v, %v", logs, err)
	}
	for _, path := range logs {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(content))
	}
	texts = append(texts, a.stderr.String())
	for _, text := range texts {
		if at := strings.Index(text, "canary"); at >= 0 {
			t.Errorf("a secret is shown: …%s…", text[max(0, at-60):min(len(text), at+40)])
		}
	}
}

func TestConfigIsReloadedLiveAndABrokenOneStopsNothing(t *testing.T) {
	s := newSandbox(t, oneServer)
	s.start("serve")
	c := s.client()
	pid := s.server("demo", connected).PID
	begun := time.Now()
	s.writeConfig(strings.Replace(oneServer, `"mcpServers": {`, `"mcpServers": { "more": {"command": "$PROGRAM", "args": ["demo-server"]},`, 1))
	s.server("more", connected)
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("an edit took effect after %s", took)
	}
	if now := s.server("demo", connected); now.PID != pid {
		t.Error("a server whose entry did not change was restarted")
	}
	s.eventuallyTrue("the new tools are listed", func() bool {
		tools, err := c.tools(context.Background())
		return err == nil && len(tools) == 12
	})

	before := sha256.Sum256([]byte("{ broken"))
	s.writeConfig("{ broken")
	s.report(func(r core.Report) bool { return r.ConfigError != "" })
	if now := s.server("demo", connected); now.PID != pid {
		t.Error("a broken config restarted a server")
	}
	s.must(c, "demo__echo", `{"message":"x"}`)
	if content, err := os.ReadFile(s.config); err != nil || sha256.Sum256(content) != before {
		t.Errorf("the broken file was written: %q, %v", content, err)
	}
	s.writeConfig(oneServer)
	s.report(func(r core.Report) bool { return r.ConfigError == "" && len(r.Servers) == 1 })
}

func TestServeWithABrokenConfigExits4AndTrayWaitsForTheFix(t *testing.T) {
	s := newSandbox(t, "{ \"mcpServers\": {\n  \"a\": ] }")
	_, stderr, code := s.run("serve")
	if code != exitInvalidConfig || !strings.Contains(stderr, "config.json:2:") {
		t.Errorf("serve: exit code %d, %s", code, stderr)
	}
	s.start("tray")
	r := s.report(func(r core.Report) bool { return r.ConfigError != "" })
	if r.Mode != modeHeadless || r.Tray.Reason == "" {
		t.Errorf("mode %s, tray %+v", r.Mode, r.Tray)
	}
	s.writeConfig(oneServer)
	s.server("demo", connected)
}

func TestDisableIsKeptOverARestart(t *testing.T) {
	s := newSandbox(t, oneServer)
	a := s.start("serve")
	pid := s.server("demo", connected).PID
	if _, stderr, code := s.run("disable", "demo"); code != 0 {
		t.Fatalf("disable: %s", stderr)
	}
	s.server("demo", func(s status.Server) bool { return s.State == status.Disabled && s.PID == 0 })
	s.eventuallyTrue("the process is gone", func() bool { return !alive(pid) })
	c := s.client()
	if tools, err := c.tools(context.Background()); err != nil || len(tools) != 0 {
		t.Errorf("a disabled server lists %v, %v", tools, err)
	}
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	<-a.done
	s.start("serve")
	s.server("demo", func(s status.Server) bool { return s.State == status.Disabled })
	if _, stderr, code := s.run("reconnect", "demo"); code != 1 || !strings.Contains(stderr, "switched off") {
		t.Errorf("reconnect of a disabled one: %d, %s", code, stderr)
	}
	if _, stderr, code := s.run("enable", "demo"); code != 0 {
		t.Fatalf("enable: %s", stderr)
	}
	s.server("demo", connected)
}

func TestReconnectRestartsAConnectedServer(t *testing.T) {
	s := newSandbox(t, oneServer)
	s.start("serve")
	pid := s.server("demo", connected).PID
	if _, stderr, code := s.run("reconnect", "demo"); code != 0 {
		t.Fatalf("reconnect: %s", stderr)
	}
	s.server("demo", func(s status.Server) bool { return connected(s) && s.PID != pid })
	if alive(pid) {
		t.Error("the old process is left")
	}
}

func TestAppEndsCleanlyOnSignals(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		s := newSandbox(t, oneServer)
		a := s.start("serve")
		s.server("demo", connected)
		_ = a.cmd.Process.Signal(signal)
		<-a.done
		if code := a.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s: exit code %d, %s", signal, code, a.stderr)
		}
	}
}

func TestDemoTellsItsStory(t *testing.T) {
	s := newSandbox(t, "")
	stdout, stderr, code := s.run("demo")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	for _, step := range []string{"reconnecting: attempt 1 of 2", "slow probe", "recovered by the probe alone", "= 42", "no process and no file is left"} {
		if !strings.Contains(stdout, step) {
			t.Errorf("no %q in\n%s", step, stdout)
		}
	}
}
