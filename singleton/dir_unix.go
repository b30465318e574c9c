//go:build unix

package singleton

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	folderName = "mcp-funnel"
	dirAdvice  = "Set XDG_RUNTIME_DIR to a folder of your own with mode 0700 and a short path"
)

// socketPathMax is how long the path of a socket may be: sun_path without the
// final NUL (unix(7)).
func socketPathMax() int {
	if runtime.GOOS == "linux" {
		return 107
	}
	return 103
}

// places are where the system keeps such folders; tests have their own.
type places struct {
	xdg     string // $XDG_RUNTIME_DIR, "" when unset
	perUser string // the folder the system makes for this user
	shared  string // a folder for everyone's temporary files
	uid     int
}

func systemPlaces() places {
	p := places{xdg: os.Getenv("XDG_RUNTIME_DIR"), shared: "/tmp", uid: os.Geteuid()}
	if runtime.GOOS == "darwin" {
		p.perUser = os.Getenv("TMPDIR")
	} else {
		p.perUser = "/run/user/" + strconv.Itoa(p.uid)
	}
	return p
}

func candidates(p places) []candidate {
	var all []candidate
	private := func(base, name string) {
		switch {
		case base == "":
			all = append(all, unusable(name, errors.New("it is not set")))
		case !filepath.IsAbs(base):
			all = append(all, unusable(base, errNotAbsolute))
		default:
			all = append(all, candidate{filepath.Join(base, folderName), p.inPrivate})
		}
	}
	private(p.xdg, "$XDG_RUNTIME_DIR")
	if p.xdg == "" || filepath.Clean(p.xdg) != filepath.Clean(p.perUser) {
		private(p.perUser, "$TMPDIR")
	}
	shared := filepath.Join(p.shared, folderName+"-"+strconv.Itoa(p.uid))
	return append(all, candidate{shared, p.inShared})
}

// inPrivate makes path in a folder that has to be the user's alone. That folder
// may be reached through a link: what counts is where the link leads.
func (p places) inPrivate(path string) error {
	base := filepath.Dir(path)
	info, err := os.Stat(base)
	if err != nil {
		return err
	}
	if err := p.ours(base, info); err != nil {
		return err
	}
	return p.make(path)
}

// inShared makes path in a folder where others may write as well: only its
// sticky bit keeps them from moving ours away.
func (p places) inShared(path string) error {
	base := filepath.Dir(path)
	info, err := os.Stat(base)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("others can move files in %s: it has no sticky bit", base)
	}
	return p.make(path)
}

// make makes the folder at path or accepts the one that is there.
func (p places) make(path string) error {
	err := os.Mkdir(path, 0o700)
	switch {
	case err == nil: // whatever the umask took away, put it back
		err = os.Chmod(path, 0o700)
	case errors.Is(err, fs.ErrExist):
		err = nil
	}
	if err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if err := p.ours(path, info); err != nil {
		return err
	}
	if err := unix.Access(path, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("we cannot write in it: %w", err)
	}
	return nil
}

// ours says why a folder is not ours alone.
func (p places) ours(path string, info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a link", path)
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", path)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != p.uid {
		return fmt.Errorf("%s belongs to another user", path)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%s is open to others (mode %04o)", path, perm)
	}
	return nil
}
