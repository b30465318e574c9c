package filewatch

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// maxLinks ends a circle of symbolic links.
const maxLinks = 40

// watchSet keeps watches on the folders in which something has to happen for
// one of the files to change.
type watchSet struct {
	notices *fsnotify.Watcher
	trees   bool
	log     *slog.Logger
	cut     bool                   // that a tree is too large was told
	folders map[string]fs.FileInfo // watched now
	names   map[string]bool        // paths whose notices mean a change
	inside  map[string]bool        // folders in which every notice does
}

// concerns reports whether a notice about name means that a file changed, or a
// link or folder on the way to one.
func (s *watchSet) concerns(name string) bool {
	name = filepath.Clean(name)
	_, folder := s.folders[name]
	return folder || s.names[name] || s.inside[filepath.Dir(name)]
}

// update makes the watches fit what lies at paths now. What appears while it
// works is found by tracing once more when all is set.
func (s *watchSet) update(paths []string) error {
	const rounds = 5
	for range rounds {
		folders, names := map[string]fs.FileInfo{}, map[string]bool{}
		s.inside = map[string]bool{}
		for _, path := range paths {
			trace(path, folders, names)
			if s.trees {
				s.enter(path, folders)
			}
		}
		s.names = names
		if s.current(folders) {
			return nil
		}
		if err := s.apply(folders); err != nil {
			return err
		}
	}
	return nil // folders come and go too fast; the next notice corrects it
}

// current reports whether exactly these folders are watched, and are the same
// ones, not new ones of the same name.
func (s *watchSet) current(folders map[string]fs.FileInfo) bool {
	if len(folders) != len(s.folders) {
		return false
	}
	for path, info := range folders {
		if old, ok := s.folders[path]; !ok || !os.SameFile(old, info) {
			return false
		}
	}
	// A watch ends by itself when its folder is moved or deleted.
	return len(s.notices.WatchList()) == len(s.folders)
}

// apply drops all watches that do not fit and makes those that are missing.
func (s *watchSet) apply(folders map[string]fs.FileInfo) error {
	live := map[string]bool{}
	for _, path := range s.notices.WatchList() {
		live[path] = true
		old, known := s.folders[path]
		if info, wanted := folders[path]; !wanted || !known || !os.SameFile(old, info) {
			// Failing means that it is gone already.
			_ = s.notices.Remove(path)
			live[path] = false
		}
	}
	s.folders = map[string]fs.FileInfo{}
	for path, info := range folders {
		if !live[path] {
			err := s.notices.Add(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue // gone since it was seen; the next round finds out
			}
			if err != nil {
				return fmt.Errorf("%w for %s: %w", errNoNotices, path, err)
			}
		}
		s.folders[path] = info
	}
	return nil
}

// trace walks to path, link by link, and notes every folder in which a change
// would lead elsewhere, with the name that matters in it: each link, the first
// part that does not exist, and the file itself.
func trace(path string, folders map[string]fs.FileInfo, names map[string]bool) {
	path, err := filepath.Abs(path)
	if err != nil {
		return // no working folder: nothing to resolve a relative path against
	}
	note := func(name string) {
		folder := filepath.Dir(name)
		if info, err := os.Stat(folder); err == nil {
			folders[folder] = info
			names[name] = true
		}
	}
	for range maxLinks {
		at, rest, link := firstLink(path)
		note(at)
		if !link {
			return
		}
		target, err := os.Readlink(at)
		if err != nil {
			return // replaced since it was seen; its folder is watched
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(at), target)
		}
		path = filepath.Join(target, rest)
	}
}

// firstLink is the first symbolic link on the way to path, and what follows it;
// without one it is the first part that does not exist, or path itself.
func firstLink(path string) (at, rest string, link bool) {
	volume := filepath.VolumeName(path)
	parts := strings.Split(strings.TrimPrefix(path[len(volume):], string(filepath.Separator)), string(filepath.Separator))
	at = volume + string(filepath.Separator)
	for i, part := range parts {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if err != nil {
			return at, "", false
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return at, filepath.Join(parts[i+1:]...), true
		}
	}
	return path, "", false
}
