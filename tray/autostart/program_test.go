//go:build unix

package autostart

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLastingPath(t *testing.T) {
	dir := t.TempDir()
	real1 := filepath.Join(dir, "cellar", "1.2.3", "mcp-funnel")
	for _, path := range []string{real1, filepath.Join(dir, "other", "mcp-funnel"), filepath.Join(dir, "app.AppImage")} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(bin, "mcp-funnel")
	if err := os.Symlink(real1, link); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(dir, "app.AppImage")
	for name, c := range map[string]struct {
		variables map[string]string
		want      string
	}{
		"in PATH by a link":     {map[string]string{"PATH": "/nowhere:" + bin}, link},
		"another one in PATH":   {map[string]string{"PATH": filepath.Join(dir, "other")}, real1},
		"the other comes first": {map[string]string{"PATH": filepath.Join(dir, "other") + ":" + bin}, link},
		"relative PATH":         {map[string]string{"PATH": ".:bin:"}, real1},
		"nothing":               {nil, real1},
		"within an image":       {map[string]string{"APPIMAGE": image, "APPDIR": filepath.Join(dir, "cellar"), "PATH": bin}, image},
		"started by an image":   {map[string]string{"APPIMAGE": image, "APPDIR": "/tmp/.mount_x", "PATH": bin}, link},
		"beside the image":      {map[string]string{"APPIMAGE": image, "APPDIR": filepath.Join(dir, "cell")}, real1},
		"image without folder":  {map[string]string{"APPIMAGE": image}, real1},
		"everything":            {map[string]string{"APPIMAGE": image, "APPDIR": "/"}, real1},
	} {
		if got := lastingPath(real1, func(name string) string { return c.variables[name] }); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got, err := Program(os.Getenv); err != nil || !filepath.IsAbs(got) {
		t.Errorf("the test's own program: %q, %v", got, err)
	}
}
