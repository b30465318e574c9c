//go:build unix

package singleton

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// testPlaces are a set of places below a private folder, all of them good.
func testPlaces(t *testing.T) places {
	t.Helper()
	root := privateDir(t)
	p := places{
		xdg:     filepath.Join(root, "xdg"),
		perUser: filepath.Join(root, "run"),
		shared:  filepath.Join(root, "tmp"),
		uid:     os.Geteuid(),
	}
	for _, dir := range []string{p.xdg, p.perUser, p.shared} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(p.shared, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p places) inTmp() string {
	return filepath.Join(p.shared, "mcp-funnel-"+strconv.Itoa(p.uid))
}

func TestC130_RuntimeDirFallsThrough(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, p *places)
		want  func(p places) string
	}{
		{"all good", func(_ *testing.T, _ *places) {},
			func(p places) string { return p.xdg + "/mcp-funnel" }},
		{"unset", func(_ *testing.T, p *places) { p.xdg = "" },
			func(p places) string { return p.perUser + "/mcp-funnel" }},
		{"relative", func(_ *testing.T, p *places) { p.xdg = "run" },
			func(p places) string { return p.perUser + "/mcp-funnel" }},
		{"missing", func(t *testing.T, p *places) {
			t.Helper()
			mustDo(t, os.Remove(p.xdg))
		},
			func(p places) string { return p.perUser + "/mcp-funnel" }},
		{"a file", func(t *testing.T, p *places) {
			t.Helper()
			mustDo(t, os.Remove(p.xdg))
			mustDo(t, os.WriteFile(p.xdg, nil, 0o600))
		}, func(p places) string { return p.perUser + "/mcp-funnel" }},
		{"open to others", func(t *testing.T, p *places) {
			t.Helper()
			mustDo(t, os.Chmod(p.xdg, 0o750))
		},
			func(p places) string { return p.perUser + "/mcp-funnel" }},
		{"a link to a good folder", func(t *testing.T, p *places) {
			t.Helper()
			mustDo(t, os.Symlink(p.xdg, p.xdg+"-link"))
			p.xdg += "-link"
		}, func(p places) string { return p.xdg + "/mcp-funnel" }},
		{"ours in it is a link", func(t *testing.T, p *places) {
			t.Helper()
			mustDo(t, os.Symlink(p.perUser, p.xdg+"/mcp-funnel"))
		}, func(p places) string { return p.perUser + "/mcp-funnel" }},
		{"ours in it is open to others", func(t *testing.T, p *places) {
			t.Helper()
			mustDo(t, os.Mkdir(p.xdg+"/mcp-funnel", 0o700))
			mustDo(t, os.Chmod(p.xdg+"/mcp-funnel", 0o701))
		}, func(p places) string { return p.perUser + "/mcp-funnel" }},
		{"neither is there", func(t *testing.T, p *places) {
			t.Helper()
			p.xdg = ""
			mustDo(t, os.Remove(p.perUser))
		}, places.inTmp},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := testPlaces(t)
			tc.spoil(t, &p)
			for _, when := range []string{"made", "found again"} {
				dir, err := firstUsable(candidates(p))
				if err != nil || dir != tc.want(p) {
					t.Fatalf("%s: %q, %v, want %q", when, dir, err, tc.want(p))
				}
				info, err := os.Lstat(dir)
				if err != nil || info.Mode() != fs.ModeDir|0o700 {
					t.Errorf("%s: %v, %v", when, info.Mode(), err)
				}
			}
		})
	}
}

func TestC130_ForeignFolders(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving a folder to another user takes root")
	}
	const other = 54321
	p := testPlaces(t)
	mustDo(t, os.Chown(p.xdg, other, other))
	mustDo(t, os.Mkdir(p.perUser+"/mcp-funnel", 0o700))
	mustDo(t, os.Chown(p.perUser+"/mcp-funnel", other, other))
	dir, err := firstUsable(candidates(p))
	if err != nil || dir != p.inTmp() {
		t.Errorf("%q, %v, want %q", dir, err, p.inTmp())
	}
	mustDo(t, os.Chown(dir, other, other)) // someone was there before us
	_, err = firstUsable(candidates(p))
	refused := wantError[*DirError](t, err)
	if len(refused.Tried) != 3 {
		t.Errorf("tried %v", refused.Tried)
	}
}

func TestC130_SharedFolderNeedsItsStickyBit(t *testing.T) {
	p := testPlaces(t)
	p.xdg = ""
	mustDo(t, os.Remove(p.perUser))
	mustDo(t, os.Chmod(p.shared, 0o777))
	_, err := firstUsable(candidates(p))
	wantError[*DirError](t, err)
}

func TestC130_ErrorListsWhatWasTried(t *testing.T) {
	p := testPlaces(t)
	p.xdg = "relative"
	mustDo(t, os.Remove(p.perUser))
	mustDo(t, os.RemoveAll(p.shared))
	_, err := firstUsable(candidates(p))
	wantError[*DirError](t, err)
	for _, part := range []string{"relative", "not an absolute path", p.perUser, p.inTmp(), "XDG_RUNTIME_DIR"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the reasons cannot be asked for in %v", err)
	}
}

func TestC130_RuntimeDirOfTheEnvironment(t *testing.T) {
	xdg := privateDir(t)
	t.Setenv("XDG_RUNTIME_DIR", xdg)
	dir, err := RuntimeDir()
	if err != nil || dir != filepath.Join(xdg, "mcp-funnel") {
		t.Errorf("%q, %v", dir, err)
	}
}

func TestC129_LongRuntimeDir(t *testing.T) {
	p := testPlaces(t)
	p.xdg = filepath.Join(p.xdg, strings.Repeat("deep/", 30))
	mustDo(t, os.MkdirAll(p.xdg, 0o700))
	dir, err := firstUsable(candidates(p))
	if err != nil || dir != p.perUser+"/mcp-funnel" {
		t.Errorf("%q, %v", dir, err)
	}
	if _, err := os.Stat(p.xdg + "/mcp-funnel"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder of no use was made: %v", err)
	}
}

// The longest path that is let through really can be listened on, and one byte
// more is refused with the limit.
func TestC129_SocketPathLimit(t *testing.T) {
	root := privateDir(t)
	room := socketPathMax() - len(root) - len("//"+socketName)
	fits := filepath.Join(root, strings.Repeat("x", room))
	for dir, ok := range map[string]bool{fits: true, fits + "x": false} {
		mustDo(t, os.Mkdir(dir, 0o700))
		inst, err := Acquire(dir, Info{})
		mustDo(t, err)
		_, err = inst.Listen()
		if ok != (err == nil) {
			t.Errorf("listening in a folder of %d bytes: %v", len(dir), err)
		}
		if !ok && !strings.Contains(err.Error(), strconv.Itoa(socketPathMax())) {
			t.Errorf("the limit is not in %q", err)
		}
		if !ok {
			_, _, err := Dial(t.Context(), dir, Hello{})
			if err == nil || !strings.Contains(err.Error(), strconv.Itoa(socketPathMax())) {
				t.Errorf("the limit is not in %v", err)
			}
		}
		mustDo(t, inst.Close())
	}
}

func TestC137_Modes(t *testing.T) {
	for _, mask := range []int{0, 0o777} {
		old := syscall.Umask(mask)
		t.Cleanup(func() { syscall.Umask(old) })
		syscall.Umask(old)
		p := testPlaces(t)
		syscall.Umask(mask)
		dir, err := firstUsable(candidates(p))
		mustDo(t, err)
		inst, err := Acquire(dir, Info{Mode: ModeTray})
		mustDo(t, err)
		_, err = inst.Listen()
		mustDo(t, err)
		mustDo(t, inst.SetMode(ModeHeadless))
		want := map[string]fs.FileMode{
			"":         fs.ModeDir | 0o700,
			lockName:   0o600,
			pidName:    0o600,
			infoName:   0o600,
			socketName: fs.ModeSocket | 0o600,
		}
		for name, mode := range want {
			info, err := os.Lstat(filepath.Join(dir, name))
			if err != nil || info.Mode() != mode {
				t.Errorf("umask %o: %q has mode %v, want %v (%v)", mask, name, info.Mode(), mode, err)
			}
		}
		mustDo(t, inst.Close())
		syscall.Umask(old)
	}
}
