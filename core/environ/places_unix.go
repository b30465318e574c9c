//go:build unix

package environ

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// AddUsualPlaces returns env with the folders appended to its PATH where people
// have their tools by convention, as far as they exist and are not in it: those
// of version managers (nvm's default, Volta, fnm, asdf, mise), of Homebrew, of
// language tool chains, and the usual ones for programs installed by hand. They
// come last: what the user's shell says wins. A variable that moves one of them
// (NVM_DIR, CARGO_HOME, …) is looked up in env.
func AddUsualPlaces(env Env) Env {
	var there []string
	for _, dir := range usualPlaces(env) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			there = append(there, dir)
		}
	}
	path, _ := env.Lookup("PATH")
	return env.With([]string{"PATH=" + MergePath(path, strings.Join(there, string(filepath.ListSeparator)))})
}

// usualPlaces are the folders to look for. Version managers come first, so that
// their "node" goes before one that happens to lie in a folder for everything.
func usualPlaces(env Env) []string {
	home := base{env: env, home: homeOf(env)}
	data := home.folder("XDG_DATA_HOME", ".local/share")
	return []string{
		nvmDefault(home.folder("NVM_DIR", ".nvm")),
		filepath.Join(home.folder("VOLTA_HOME", ".volta"), "bin"),
		filepath.Join(home.folder("FNM_DIR", ".fnm"), "aliases/default/bin"),
		filepath.Join(data, "fnm/aliases/default/bin"),
		filepath.Join(home.home, "Library/Application Support/fnm/aliases/default/bin"),
		filepath.Join(home.folder("MISE_DATA_DIR", ".local/share/mise"), "shims"),
		filepath.Join(data, "mise/shims"),
		filepath.Join(home.folder("ASDF_DATA_DIR", ".asdf"), "shims"),
		filepath.Join(home.home, ".local/bin"),
		filepath.Join(home.folder("CARGO_HOME", ".cargo"), "bin"),
		home.folder("GOBIN", ""),
		filepath.Join(home.folder("GOPATH", "go"), "bin"),
		filepath.Join(home.folder("BUN_INSTALL", ".bun"), "bin"),
		filepath.Join(home.folder("DENO_INSTALL", ".deno"), "bin"),
		home.folder("PNPM_HOME", ""),
		filepath.Join(data, "pnpm"),
		filepath.Join(home.home, "Library/pnpm"),
		"/opt/homebrew/bin",
		"/home/linuxbrew/.linuxbrew/bin",
		"/usr/local/bin",
		"/snap/bin",
	}
}

// base is where a user's folders are looked for.
type base struct {
	env  Env
	home string
}

// folder is what variable says, if that is absolute (of a list, like GOPATH, the
// first), else the folder below the home, or "" if that is "".
func (b base) folder(variable, belowHome string) string {
	value, _ := b.env.Lookup(variable)
	if dirs := filepath.SplitList(value); len(dirs) > 0 && filepath.IsAbs(dirs[0]) {
		return dirs[0]
	}
	if belowHome == "" {
		return ""
	}
	return filepath.Join(b.home, belowHome)
}

// nvmDefault returns the folder with the programs of nvm's default version, or "".
// nvm is a function of the shell and puts no link anywhere, so its aliases have
// to be followed: default → lts/* → lts/jod → v22.11.0.
func nvmDefault(root string) string {
	const maxAliases = 8 // they may form a circle
	version := "default"
	for range maxAliases {
		if !filepath.IsLocal(version) {
			return ""
		}
		text, err := os.ReadFile(filepath.Join(root, "alias", version))
		if err != nil {
			break // no alias: a version
		}
		version = strings.TrimSpace(string(text))
	}
	entries, err := os.ReadDir(filepath.Join(root, "versions/node"))
	if err != nil {
		return ""
	}
	var installed []string
	for _, entry := range entries {
		installed = append(installed, entry.Name())
	}
	if newest := newestNode(installed, version); newest != "" {
		return filepath.Join(root, "versions/node", newest, "bin")
	}
	return ""
}

// newestNode picks the newest of the installed versions ("v22.11.0") that is the
// wanted one or belongs to it: "22", "v22.11", or "node" and "stable" for any.
// It returns "" if there is none.
func newestNode(installed []string, wanted string) string {
	wanted = strings.TrimPrefix(wanted, "v")
	var newest string
	var best [3]int
	for _, name := range installed {
		var version [3]int
		if n, err := fmt.Sscanf(name, "v%d.%d.%d", &version[0], &version[1], &version[2]); n != 3 || err != nil {
			continue
		}
		fits := wanted == "node" || wanted == "stable" || strings.HasPrefix(name+".", "v"+wanted+".")
		if fits && (newest == "" || slices.Compare(version[:], best[:]) > 0) {
			newest, best = name, version
		}
	}
	return newest
}
