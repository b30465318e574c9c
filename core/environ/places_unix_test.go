//go:build unix

package environ

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree makes folders (names that end with "/") and files with a content, below a
// new home.
func tree(t *testing.T, files map[string]string) (home string) {
	t.Helper()
	home = t.TempDir()
	for name, content := range files {
		path := filepath.Join(home, name)
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// below returns the entries of env's PATH that lie below home, relative to it, and
// the rest.
func below(env Env, home string) (relative, rest []string) {
	path, _ := env.Lookup("PATH")
	for _, dir := range filepath.SplitList(path) {
		if r, err := filepath.Rel(home, dir); err == nil && filepath.IsLocal(r) {
			relative = append(relative, r)
		} else {
			rest = append(rest, dir)
		}
	}
	return relative, rest
}

func TestC121_UsualPlacesThatExistComeLastAndOnce(t *testing.T) {
	home := tree(t, map[string]string{
		".nvm/alias/default": "lts/*\n", ".nvm/alias/lts/*": "lts/jod\n", ".nvm/alias/lts/jod": "v22.11.0\n",
		".nvm/versions/node/v22.11.0/bin/": "", ".nvm/versions/node/v23.1.0/bin/": "",
		".volta/bin/": "", ".local/share/fnm/aliases/default/bin/": "", ".local/share/mise/shims/": "", ".asdf/shims/": "",
		".local/bin/": "", ".cargo/bin/": "", "go/bin/": "", ".bun/bin/": "", ".local/share/pnpm/": "",
		".deno/bin": "a file",
	})
	own := home + "/.cargo/bin:/usr/bin:" + home + "/mine"
	got, rest := below(AddUsualPlaces(New([]string{"HOME=" + home, "PATH=" + own, "A=1"})), home)
	want := []string{
		".cargo/bin", "mine", // as they were, even one that does not exist
		".nvm/versions/node/v22.11.0/bin", ".volta/bin", ".local/share/fnm/aliases/default/bin", ".local/share/mise/shims",
		".asdf/shims", ".local/bin", "go/bin", ".bun/bin", ".local/share/pnpm",
	}
	if !slices.Equal(got, want) {
		t.Errorf("below the home:\n%q\nwant\n%q", got, want)
	}
	if len(rest) == 0 || rest[0] != "/usr/bin" {
		t.Errorf("elsewhere: %q, want /usr/bin first", rest)
	}
	if slices.Index(rest, "/usr/local/bin") < 0 {
		if _, err := os.Stat("/usr/local/bin"); err == nil {
			t.Errorf("elsewhere: %q, without /usr/local/bin", rest)
		}
	}
}

func TestC121_UsualPlacesFollowVariables(t *testing.T) {
	home := tree(t, map[string]string{
		"nvm/alias/default": "20", "nvm/versions/node/v20.9.0/bin/": "", "nvm/versions/node/v20.10.0/bin/": "",
		"nvm/versions/node/v2.0.0/bin/": "", "data/mise/shims/": "", "cargo/bin/": "", "gopath/bin/": "", "pnpm/": "",
		".cargo/bin/": "", "relative/bin/": "",
	})
	t.Chdir(home) // so that a relative value would lead somewhere
	got, _ := below(AddUsualPlaces(New([]string{
		"HOME=" + home, "PATH=", "NVM_DIR=" + home + "/nvm", "XDG_DATA_HOME=" + home + "/data", "CARGO_HOME=" + home + "/cargo",
		"GOPATH=" + home + "/gopath:/other", "PNPM_HOME=" + home + "/pnpm", "VOLTA_HOME=relative",
	})), home)
	want := []string{"nvm/versions/node/v20.10.0/bin", "data/mise/shims", "cargo/bin", "gopath/bin", "pnpm"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUsualPlacesWithoutPathOrHome(t *testing.T) {
	path, ok := AddUsualPlaces(Env{}).Lookup("PATH")
	for _, dir := range filepath.SplitList(path) {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || !filepath.IsAbs(dir) {
			t.Errorf("PATH %q holds %q", path, dir)
		}
	}
	if !ok {
		t.Error("no PATH")
	}
}

func TestNvmDefaultOfOddAliases(t *testing.T) {
	for alias, want := range map[string]string{
		"node": "v20.10.0", "stable": "v20.10.0", "v18": "v18.1.0", "18.1": "v18.1.0", "v20.9.0\n": "v20.9.0",
		"": "", "system": "", "1": "", "19": "", "default": "", "../../../outside": "", "/outside": "",
	} {
		root := tree(t, map[string]string{
			"alias/default": alias, "outside": "v18.1.0", "versions/node/v18.1.0/": "", "versions/node/v20.9.0/": "",
			"versions/node/v20.10.0/": "", "versions/node/junk/": "",
		})
		if want != "" {
			want = filepath.Join(root, "versions/node", want, "bin")
		}
		if got := nvmDefault(root); got != want {
			t.Errorf("alias %q: %q, want %q", alias, got, want)
		}
	}
	if got := nvmDefault(t.TempDir()); got != "" {
		t.Errorf("without nvm: %q", got)
	}
}

// FuzzNewestNode holds that only what is installed is ever picked.
func FuzzNewestNode(f *testing.F) {
	f.Add("v18.1.0 v20.9.0", "20")
	f.Add("v0.0.0 junk v1", "node")
	f.Add("v1.2.3", "")
	f.Fuzz(func(t *testing.T, list, wanted string) {
		installed := strings.Fields(list)
		if got := newestNode(installed, wanted); got != "" && !slices.Contains(installed, got) {
			t.Errorf("newestNode(%q, %q) = %q", installed, wanted, got)
		}
	})
}
