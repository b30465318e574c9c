package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"mcp-funnel/core"
	"mcp-funnel/core/status"
	"mcp-funnel/singleton/process"
)

// The demo's server is given up quickly and probed often, so that the whole story
// fits into ten seconds; real ones are treated more patiently.
const demoConfig = `{
  "mcpServers": {
    "demo": { "command": %s, "args": ["demo-server", "--down-while", %s] }
  },
  "reconnect": { "maxAttempts": 2, "initialDelayMs": 300, "slowProbeIntervalMs": 1500, "jitter": 0 },
  "notifications": { "quietAfterStartMs": 0 }
}
`

// demo is one run of the story. Every step fails the whole when it does not see
// what it says.
type demo struct {
	out        io.Writer
	begun      time.Time
	executable string
	// dir holds everything: config, state, socket, home.
	dir string
	// runtimeDir is where the app has its socket.
	runtimeDir string
	// environ is that of all its processes.
	environ []string
	app     *exec.Cmd
	// appLog is what the app wrote to stderr, for the case of a failure.
	appLog bytes.Buffer
	client *demoClient
	watch  *eventReader
	// unseen is why what it said was not written.
	unseen error
	// pids are all processes it saw, to prove that none is left.
	pids map[string]int
}

// runDemo tells the story on out. It fails at the first step that goes wrong, and
// leaves nothing behind either way.
func runDemo(ctx context.Context, out io.Writer) (err error) {
	survivePipes()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	d := &demo{out: out, begun: time.Now(), pids: make(map[string]int)}
	defer func() {
		d.stopAll()
		if err != nil && d.appLog.Len() > 0 {
			err = fmt.Errorf("%w\nThe app said:\n%s", err, d.appLog.String())
		}
		err = errors.Join(err, d.removeAll())
		if err == nil {
			d.say("the folder is removed: no process and no file is left")
			d.say("done")
		}
	}()
	for _, step := range []func(context.Context) error{
		d.prepare, d.startApp, d.attachClient, d.useTools, d.killServer, d.seeItComeBack, d.useToolsAgain, d.quitApp,
	} {
		if err := step(ctx); err != nil {
			return err
		}
		if d.unseen != nil {
			return fmt.Errorf("telling the story: %w", d.unseen)
		}
	}
	return nil
}

func (d *demo) say(format string, args ...any) {
	_, err := fmt.Fprintf(d.out, "%5.1f s  %s\n", time.Since(d.begun).Seconds(), fmt.Sprintf(format, args...))
	d.unseen = errors.Join(d.unseen, err)
}

// prepare makes the private folders and the config.
func (d *demo) prepare(context.Context) error {
	var err error
	if d.executable, err = os.Executable(); err != nil {
		return fmt.Errorf("finding the program's file: %w", err)
	}
	// Socket paths are short, so not the usual folder for temporary files.
	if d.dir, err = os.MkdirTemp(shortTemp(), "mcp-funnel-demo-"); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	for _, name := range []string{"run", "home", "config/mcp-funnel"} {
		if err := os.MkdirAll(filepath.Join(d.dir, name), 0o700); err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
	}
	d.environ = d.sandbox()
	text := fmt.Sprintf(demoConfig, quoted(d.executable), quoted(d.downFile()))
	if err := os.WriteFile(filepath.Join(d.dir, "config", "mcp-funnel", "config.json"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing the config: %w", err)
	}
	d.say("a private folder with a config of one server, \"demo\": %s", d.dir)
	return nil
}

func quoted(text string) []byte {
	encoded, err := json.Marshal(text)
	if err != nil {
		return []byte(`""`) // a string always encodes
	}
	return encoded
}

// downFile keeps the server from starting while it exists.
func (d *demo) downFile() string { return filepath.Join(d.dir, "down") }

// sandbox is the present environment with every folder of the user replaced. Only
// the desktop's bus stays, for the icon.
func (d *demo) sandbox() []string {
	replaced := map[string]string{
		"HOME":            filepath.Join(d.dir, "home"),
		"USERPROFILE":     filepath.Join(d.dir, "home"),
		"LOCALAPPDATA":    filepath.Join(d.dir, "run"),
		"XDG_RUNTIME_DIR": filepath.Join(d.dir, "run"),
		"XDG_CONFIG_HOME": filepath.Join(d.dir, "config"),
		"XDG_STATE_HOME":  filepath.Join(d.dir, "state"),
		"XDG_CACHE_HOME":  filepath.Join(d.dir, "cache"),
		"XDG_DATA_HOME":   filepath.Join(d.dir, "data"),
	}
	if runtimeDir := os.Getenv("XDG_RUNTIME_DIR"); os.Getenv("DBUS_SESSION_BUS_ADDRESS") == "" && runtimeDir != "" {
		if _, err := os.Stat(filepath.Join(runtimeDir, "bus")); err == nil {
			replaced["DBUS_SESSION_BUS_ADDRESS"] = "unix:path=" + filepath.Join(runtimeDir, "bus")
		}
	}
	var environ []string
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if _, ours := replaced[name]; !ours && !strings.HasPrefix(name, "MCP_FUNNEL_") {
			environ = append(environ, pair)
		}
	}
	for name, value := range replaced {
		environ = append(environ, name+"="+value)
	}
	return environ
}

// command is this program again, in the sandbox.
func (d *demo) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.executable, args...)
	cmd.Env, cmd.Dir = d.environ, d.dir
	return cmd
}

// startApp starts the app and waits until its server is connected.
func (d *demo) startApp(ctx context.Context) error {
	d.app = d.command(ctx, "tray")
	d.app.Stderr = &d.appLog
	d.app.Cancel = func() error { return d.app.Process.Signal(os.Interrupt) }
	d.app.WaitDelay = 12 * time.Second
	if err := d.app.Start(); err != nil {
		return fmt.Errorf("starting the app: %w", err)
	}
	d.pids["app"] = d.app.Process.Pid
	var report core.Report
	err := d.until(ctx, "the app answers and its server is connected", func() bool {
		var err error
		report, err = d.status(ctx)
		return err == nil && len(report.Servers) == 1 && report.Servers[0].State == status.Connected
	})
	if err != nil {
		return err
	}
	d.runtimeDir = report.RuntimeDir
	d.pids["server"] = report.Servers[0].PID
	icon := "with its icon in the tray"
	if !report.Tray.Shown {
		icon = "without an icon: " + report.Tray.Reason
	}
	d.say("the app runs (pid %d), %s", report.PID, icon)
	d.say("server \"demo\" is connected (pid %d), %d tools", report.Servers[0].PID, report.Servers[0].Tools)
	return nil
}

// status asks the app how it is.
func (d *demo) status(ctx context.Context) (core.Report, error) {
	var report core.Report
	text, err := d.command(ctx, "status", "--json").Output()
	if err != nil {
		return report, err
	}
	return report, json.Unmarshal(text, &report)
}

// until waits for a condition, a few seconds at most.
func (d *demo) until(ctx context.Context, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited too long until %s", what)
		}
	}
	return nil
}

// attachClient starts a bridge, as an MCP client does, and shakes hands.
func (d *demo) attachClient(ctx context.Context) error {
	var err error
	if d.watch, err = watchEvents(ctx, d.runtimeDir); err != nil {
		return err
	}
	if d.client, err = startClient(d.command(ctx, "bridge")); err != nil {
		return err
	}
	d.pids["bridge"] = d.client.cmd.Process.Pid
	server, err := d.client.initialize(ctx)
	if err != nil {
		return err
	}
	d.say("a client attached through `mcp-funnel bridge` (pid %d): it talks to %q", d.pids["bridge"], server)
	return nil
}

// useTools lists the tools and calls one.
func (d *demo) useTools(ctx context.Context) error {
	tools, err := d.client.tools(ctx)
	if err != nil {
		return err
	}
	d.say("tools/list: %s", strings.Join(tools, ", "))
	return d.add(ctx, 2, 40, "42")
}

func (d *demo) useToolsAgain(ctx context.Context) error { return d.add(ctx, 40, 2, "42") }

func (d *demo) add(ctx context.Context, a, b int, want string) error {
	got, err := d.client.call(ctx, "demo__add", fmt.Sprintf(`{"a":%d,"b":%d}`, a, b))
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("demo__add(%d, %d) answered %q, not %q", a, b, got, want)
	}
	d.say("tools/call demo__add(%d, %d) = %s", a, b, got)
	return nil
}

// killServer kills the server while the client is attached, and keeps it from
// starting again until the app has given up the quick attempts.
func (d *demo) killServer(ctx context.Context) error {
	if err := os.WriteFile(d.downFile(), nil, 0o600); err != nil {
		return fmt.Errorf("keeping the server down: %w", err)
	}
	server, err := os.FindProcess(d.pids["server"])
	if err != nil {
		return fmt.Errorf("finding the server: %w", err)
	}
	if err := server.Kill(); err != nil {
		return fmt.Errorf("killing the server: %w", err)
	}
	d.say("kill -9 %d: the server is gone, and cannot start for the moment", d.pids["server"])
	lost, err := d.watch.next(ctx, status.EventDisconnected)
	if err != nil {
		return err
	}
	d.say("noticed: %s", lost.Reason)
	for {
		event, err := d.watch.next(ctx, status.EventReconnecting, status.EventSlowProbeStarted)
		if err != nil {
			return err
		}
		if event.Name == status.EventSlowProbeStarted {
			d.say("slow probe: the attempts are used up, now one try every %d ms, for ever", *event.ProbeIntervalMs)
			return nil
		}
		d.say("reconnecting: attempt %d of %d in %d ms", event.Attempt, event.MaxAttempts, *event.NextRetryMs)
	}
}

// seeItComeBack lets the server start again and waits for the probe to find it.
// Nobody calls meanwhile: it is the probe alone.
func (d *demo) seeItComeBack(ctx context.Context) error {
	if err := os.Remove(d.downFile()); err != nil {
		return fmt.Errorf("letting the server start: %w", err)
	}
	d.say("the server could start again; nobody calls it")
	back, err := d.watch.next(ctx, status.EventSlowProbeRecovered)
	if err != nil {
		return err
	}
	up, err := d.watch.next(ctx, status.EventConnected)
	if err != nil {
		return err
	}
	d.pids["new server"] = up.PID
	d.say("recovered by the probe alone (pid %d), after %d ms; the client's session went on", up.PID, *back.DownMs)
	return nil
}

// quitApp ends everything and proves it.
func (d *demo) quitApp(ctx context.Context) error {
	if text, err := d.command(ctx, "quit").CombinedOutput(); err != nil {
		return fmt.Errorf("mcp-funnel quit: %w: %s", err, text)
	}
	if err := d.app.Wait(); err != nil {
		return fmt.Errorf("the app ended badly: %w", err)
	}
	d.app = nil
	if err := d.client.close(ctx); err != nil {
		return err
	}
	d.say("quit")
	for name, pid := range d.pids {
		if start, err := process.StartTime(pid); err == nil && process.Alive(pid, start) {
			return fmt.Errorf("the %s (pid %d) is still there", name, pid)
		}
	}
	left, err := os.ReadDir(d.runtimeDir)
	if err != nil {
		return fmt.Errorf("looking into the runtime folder: %w", err)
	}
	for _, file := range left {
		// Locks are never removed: whoever waits for one would get another file.
		if !strings.HasSuffix(file.Name(), ".lock") {
			return fmt.Errorf("%s is still there", file.Name())
		}
	}
	d.say("gone: app, bridge, both servers, pid file and socket")
	return nil
}

// stopAll ends what a failed step left running.
func (d *demo) stopAll() {
	if d.client != nil {
		d.client.kill()
	}
	if d.watch != nil {
		d.watch.close()
	}
	if d.app != nil && d.app.Process != nil {
		_ = d.app.Process.Signal(os.Interrupt) // it may have ended by itself
		_ = d.app.Wait()                       // the failure is told already
	}
}

func (d *demo) removeAll() error {
	if d.dir == "" {
		return nil
	}
	if err := os.RemoveAll(d.dir); err != nil {
		return fmt.Errorf("removing the demo's folder: %w", err)
	}
	return nil
}
