//go:build e2e && linux

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcp-funnel/cmd/mcp-funnel/e2e/parts"
)

// The parts. Their versions are changed here, or in package parts, and nowhere else.
var (
	servers = parts.Part{Name: "servers-" + parts.ServersVersion, Packages: []string{
		"@modelcontextprotocol/server-filesystem@" + parts.ServersVersion,
		"@modelcontextprotocol/server-memory@" + parts.ServersVersion,
		parts.Everything,
	}}
	claudeCode = parts.Part{Name: "claude-2.1.332", Packages: []string{"@anthropic-ai/claude-code@2.1.332"}, Finish: finishClaude}
	inspector  = parts.Part{Name: "inspector-2.12.0", Packages: []string{"@modelcontextprotocol/inspector@2.12.0"}}
	mcporter   = parts.Part{Name: "mcporter-0.12.3", Packages: []string{"mcporter@0.12.3"}}
	sdk1       = parts.Part{Name: "sdk1-1.32.2", Packages: []string{"@modelcontextprotocol/sdk@1.32.2"}}
	sdk2       = parts.Part{Name: "sdk2-2.4.0", Packages: []string{"@modelcontextprotocol/client@2.4.0"}}
	// Two lines of the conformance suite; each knows scenarios that the other does not.
	conformance1 = parts.Part{Name: "conformance-0.1.16", Packages: []string{"@modelcontextprotocol/conformance@0.1.16"}}
	conformance2 = parts.Part{Name: "conformance-0.2.0-alpha.12", Packages: []string{"@modelcontextprotocol/conformance@0.2.0-alpha.12"}}

	xfce = parts.Part{Name: "xfce", Installed: map[string]string{
		"Xvfb": "xvfb", "dbus-daemon": "dbus-daemon", "dbus-monitor": "dbus-bin", "xfce4-panel": "xfce4-panel",
		"dunst": "dunst", "xdotool": "xdotool", "import": "imagemagick",
	}}
)

// fetch makes sure that the parts are there.
func fetch(t *testing.T, wanted []parts.Part, proved *string) {
	t.Helper()
	for _, p := range wanted {
		if missing := p.Missing(); len(missing) > 0 {
			skip(t, proved, "not installed: "+strings.Join(missing, " "))
		}
		switch err := p.Fetch(os.Stdout); {
		case errors.Is(err, exec.ErrNotFound):
			skip(t, proved, err.Error())
		case err != nil:
			t.Fatal(err)
		}
	}
}

// everythingPackage is go-sdk's server that has all that the conformance suites ask
// for. go.mod has its version.
const everythingPackage = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"

// everythingServer builds that server and returns its path. Without flags it speaks
// over standard input and output.
func everythingServer(t *testing.T) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(program), "everything-server")
	if _, err := os.Stat(path); err == nil {
		return path // this run built it
	}
	if out, err := exec.Command("go", "build", "-o", path, everythingPackage).CombinedOutput(); err != nil {
		t.Fatalf("building go-sdk's server: %v: %s", err, out)
	}
	return path
}

// finishClaude puts Claude Code's program in its place where npm was told to run no
// scripts of packages.
func finishClaude(dir string) error {
	const real = 1 << 20 // the placeholder is a few hundred bytes
	folder := filepath.Join(dir, "node_modules", "@anthropic-ai", "claude-code")
	var info fs.FileInfo
	info, err := os.Stat(filepath.Join(folder, "bin", "claude.exe"))
	if err == nil && info.Size() > real {
		return nil
	}
	cmd := exec.Command(parts.NodeProgram(), "install.cjs")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("installing Claude Code's program: %w: %s", err, out)
	}
	return nil
}
