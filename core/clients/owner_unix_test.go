//go:build unix

package clients

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInvariant9_AnotherUsersFileIsRefused(t *testing.T) {
	b := newBed(t, `{}`)
	info, err := os.Stat(b.file)
	if err != nil {
		t.Fatal(err)
	}
	self := os.Geteuid()
	if err := checkOwner(b.file, info, self); err != nil {
		t.Error(err)
	}
	if err := checkOwner(b.file, info, self+1); err == nil || !strings.Contains(err.Error(), "run the command as that user") {
		t.Errorf("somebody else's file: %v", err)
	}
	missing := filepath.Join(b.o.Home, "new", "file")
	if err := checkFolder(missing, self); err != nil {
		t.Error(err)
	}
	if self != 0 {
		if err := checkFolder(missing, 0); err == nil {
			t.Error("root would create a file of its own")
		}
		return
	}

	// As root in another user's home, with a file and without.
	const other = 12345
	for _, text := range []string{`{"a":1}`, ""} {
		b := newBed(t)
		paths := []string{b.o.Home}
		if text != "" {
			b.write(text)
			paths = append(paths, b.file)
		}
		for _, path := range paths {
			if err := os.Chown(path, other, other); err != nil {
				t.Skip(err)
			}
		}
		for range 2 {
			if _, err := b.connect("funnel", here); err == nil || !strings.Contains(err.Error(), "12345") {
				t.Errorf("connecting: %v", err)
			}
			if _, err := b.disconnect("funnel"); err == nil {
				t.Error("disconnecting worked")
			}
		}
		if now, err := os.ReadFile(b.file); string(now) != text || (err != nil) != (text == "") {
			t.Errorf("%q became %q, %v", text, now, err)
		}
		if _, err := os.Stat(b.o.StateDir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("something was noted: %v", err)
		}
		if files, _ := os.ReadDir(b.o.Home); len(files) != len(paths)-1 {
			t.Errorf("left %v", files)
		}
	}
}
