package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"mcp-funnel/core"
	"mcp-funnel/core/bridge"
	"mcp-funnel/core/environ"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/singleton"
)

// bridgeOptions says how to run a bridge.
type bridgeOptions struct {
	// name is the one under which the client has the funnel.
	name    string
	noStart bool
	in      io.Reader
	out     io.Writer
	stderr  io.Writer
}

// runBridge carries messages between the client and the app until the client is
// gone.
func runBridge(ctx context.Context, o bridgeOptions) error {
	survivePipes()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go watchParent(ctx, cancel)

	if out, ok := o.out.(*os.File); ok {
		jsonrpc.Widen(out) // for large answers
		go watchReader(ctx, out, cancel)
	}
	log := slog.New(slog.NewTextHandler(o.stderr, nil))
	return bridge.Run(ctx, bridge.Options{
		In: o.in, Out: o.out, NoStart: o.noStart, Version: buildVersion(), Log: log,
		Instructions: func() string { return core.ReadInstructions(core.StateDir()) },
		Dial: func(ctx context.Context, start bool, resume string) (bridge.Link, error) {
			return dialApp(ctx, o.name, start, resume)
		},
	})
}

// startTime bounds how long an app may take to answer after it was started.
const startTime = 15 * time.Second

// dialApp attaches to the app, and starts one if none runs and start allows it.
func dialApp(ctx context.Context, name string, start bool, resume string) (bridge.Link, error) {
	cwd, err := os.Getwd()
	if err != nil {
		cwd = "" // the folder was removed; the client may have said another one
	}
	hello := singleton.Hello{
		Protocol: singleton.Protocol, Role: singleton.RoleBridge, Version: buildVersion(),
		PID: os.Getpid(), PPID: os.Getppid(), CWD: cwd, Name: name, Env: clientEnvironment(), Resume: resume,
	}
	var launch func(context.Context) error
	if start {
		limited, cancel := context.WithTimeoutCause(ctx, startTime, errNoAnswer)
		defer cancel()
		var giveUp context.CancelCauseFunc
		ctx, giveUp = context.WithCancelCause(limited)
		defer giveUp(nil)
		launch = func(context.Context) error {
			return startApp(func(how error) {
				giveUp(fmt.Errorf("the app was started and ended at once (%w); run `mcp-funnel` in a terminal to see why", how))
			})
		}
	}
	conn, _, err := singleton.DialOrStart(ctx, singleton.RuntimeDir, hello, launch)
	if err != nil {
		return bridge.Link{}, err
	}
	return bridge.Link{WriteCloser: conn, R: conn.R}, nil
}

// errNoAnswer: an app was started and cannot be reached.
var errNoAnswer = errors.New("the app was started and does not answer; run `mcp-funnel` in a terminal to see why")

// longestIdentity is how long a value in a hello may be, in bytes, so that all fit.
const longestIdentity = 4 << 10

// clientEnvironment is what tells the app which client session this is.
func clientEnvironment() map[string]string {
	environment := map[string]string{}
	for _, name := range []string{"CLAUDE_PROJECT_DIR", "CLAUDE_CODE_SESSION_ID"} {
		if value := os.Getenv(name); value != "" && len(value) <= longestIdentity {
			environment[name] = value
		}
	}
	return environment
}

// startApp starts the app for the user, and not for this client: in a session of
// its own, in the home folder, with the environment of a login. When it ends badly,
// failed is told how, as long as this bridge lives.
func startApp(failed func(how error)) error {
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the program's file: %w", err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("finding the home folder: %w", err)
	}
	// Not exec.CommandContext: the app outlives this bridge.
	cmd := exec.Command(executable, "tray", "--by-bridge") //nolint:noctx // see above
	cmd.Dir = home
	cmd.Env = environ.ForBridgeStart(os.Environ())
	if path := os.Getenv("MCP_FUNNEL_CONFIG"); path != "" {
		// Relative, it would mean another file in another folder.
		if path, err = filepath.Abs(path); err != nil {
			return fmt.Errorf("finding the config file: %w", err)
		}
		cmd.Env = append(cmd.Env, "MCP_FUNNEL_CONFIG="+path)
	}
	keepFilesFromChildren()
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the app: %w", err)
	}
	go func() {
		// Also so that no zombie stays while this bridge lives. One that finds another
		// instance ends well.
		if err := cmd.Wait(); err != nil {
			failed(err)
		}
	}()
	return nil
}
