package upstream

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"

	"mcp-funnel/core/config"
	"mcp-funnel/core/environ"
	"mcp-funnel/core/jsonrpc"
)

// Launcher makes the openers of configured servers.
type Launcher struct {
	// Environment gives the environment that servers inherit. It may wait a
	// moment for the user's login shell.
	Environment func(ctx context.Context) environ.Env
	// Home is the folder of servers without a cwd.
	Home string
	// OpenLog opens the log of a server for appending.
	OpenLog func(server string) io.WriteCloser
	Custody *Custody
	HTTP    *http.Client
	// Burst is that of everybody who reads or writes lines; nil works too.
	Burst *jsonrpc.Burst
	Log   *slog.Logger
}

// Open returns the opener for entry, which must not be invalid.
func (l *Launcher) Open(entry config.Server) Opener {
	if entry.Type == config.Stdio {
		return func(ctx context.Context) (Transport, error) { return l.openStdio(ctx, entry) }
	}
	return func(ctx context.Context) (Transport, error) {
		e := Endpoint{
			Server: entry.Name, URL: entry.URL, Headers: entry.Headers, CAFile: entry.CAFile, FallbackSSE: entry.FallbackSSE,
			Mask: masker(entry.Secrets), Client: l.HTTP, Logger: l.Log,
		}
		if entry.Type == config.SSE {
			return openSSE(ctx, e)
		}
		return openHTTP(ctx, e)
	}
}

// openStdio starts the process of entry.
func (l *Launcher) openStdio(ctx context.Context, entry config.Server) (Transport, error) {
	if err := l.Custody.Cleared(ctx, entry.Name); err != nil {
		return nil, err
	}
	env, mask, err := l.environmentOf(ctx, entry)
	if err != nil {
		return nil, err
	}
	dir := entry.Cwd
	if dir == "" {
		dir = l.Home
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("its folder %q (cwd in its config) is not there", dir)
	}
	path, _ := env.Lookup("PATH")
	executable, err := environ.LookPath(entry.Command, path, dir)
	if err != nil {
		return nil, err
	}
	t, err := startStdio(Command{
		Server: entry.Name, Path: executable, Args: entry.Args, Env: env.Environ(), Dir: dir,
		Log: l.OpenLog(entry.Name), Mask: mask, Custody: l.Custody, Burst: l.Burst, Logger: l.Log,
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// environmentOf layers the entry's envFile and env over what servers inherit, and
// makes the mask for all secrets in it. The file is read at each start, so that a
// changed secret counts.
func (l *Launcher) environmentOf(ctx context.Context, entry config.Server) (environ.Env, func(string) string, error) {
	env := l.Environment(ctx)
	secrets := entry.Secrets
	if entry.EnvFile != "" {
		variables, err := config.ReadEnvFile(entry.EnvFile)
		if err != nil {
			return env, nil, err
		}
		env = env.With(variables)
		secrets = append(config.EnvSecrets(variables), secrets...)
	}
	return env.With(entry.Env), masker(secrets), nil
}

// minSecretLine is the length from which on a line of a secret is masked by itself.
const minSecretLine = 8

// masker returns a function that replaces every secret in a text by three stars, and
// every line of one that has several, since logs are read line by line.
func masker(secrets []string) func(string) string {
	var all []string
	for _, secret := range secrets {
		all = append(all, secret)
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); line != secret && len(line) >= minSecretLine {
				all = append(all, line)
			}
		}
	}
	if len(all) == 0 {
		return func(text string) string { return text }
	}
	// The longest first: a short one may be the beginning of a long one.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(all))
	for _, secret := range all {
		pairs = append(pairs, secret, "***")
	}
	return strings.NewReplacer(pairs...).Replace
}
