//go:build unix

package core

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-funnel/core/environ"
)

func TestC121_ToolsAreFoundWhenTheLoginShellSaysNothing(t *testing.T) {
	home := t.TempDir()
	bin := filepath.Join(home, ".local", "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "uvx"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, whole := range []bool{false, true} {
		e := newEnvironment([]string{"HOME=" + home, "PATH=/usr/bin:/bin", "SHELL=/bin/false"}, whole, slog.New(slog.DiscardHandler))
		for _, when := range []string{"before it was asked", "after it failed"} {
			path, _ := e.now().Lookup("PATH")
			if found, err := environ.LookPath("uvx", path, ""); err != nil || found != filepath.Join(bin, "uvx") {
				t.Errorf("%s: uvx is %q, %v", when, found, err)
			}
			if !strings.HasPrefix(path, "/usr/bin:/bin:") {
				t.Errorf("%s: PATH %q does not begin with the app's own", when, path)
			}
			if when == "before it was asked" {
				e.ask(t.Context())
			}
		}
	}
}

func TestC121_PathOfTheLoginShellGoesFirstAndUsualPlacesLast(t *testing.T) {
	home := t.TempDir()
	for _, dir := range []string{".cargo/bin", "shell/bin"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	profile := "PATH=" + home + "/shell/bin:/bin; export PATH\n"
	if err := os.WriteFile(filepath.Join(home, ".profile"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	e := newEnvironment([]string{"HOME=" + home, "PATH=/own:/bin", "SHELL=/bin/sh"}, false, slog.New(slog.DiscardHandler))
	e.ask(t.Context())
	path, _ := e.wait(t.Context()).Lookup("PATH")
	if want := home + "/shell/bin:/bin:/own:" + home + "/.cargo/bin"; !strings.HasPrefix(path, want) {
		t.Errorf("PATH %q, want it to begin with %q", path, want)
	}
}
