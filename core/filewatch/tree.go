package filewatch

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"io/fs"
	"path/filepath"
)

// maxFolders bounds the folders of one tree: notices are a scarce good.
const maxFolders = 2000

// skipped are folders that no program is built into, with very many files.
func skipped(name string) bool { return name == ".git" || name == "node_modules" }

// walk visits what is in the folder at root, in a fixed order. Unreadable parts are
// left out; it stops after maxFolders.
func walk(root string, visit func(path string, entry fs.DirEntry)) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return // not there: trace watches for it
	}
	folders := 0
	// The only errors are those that the function returns.
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case entry.IsDir() && path != root && skipped(entry.Name()):
			return filepath.SkipDir
		case entry.IsDir():
			if folders++; folders > maxFolders {
				return filepath.SkipAll
			}
		}
		visit(path, entry)
		return nil
	})
}

// enter notes every folder of the tree at path, if that is a folder.
func (s *watchSet) enter(path string, folders map[string]fs.FileInfo) {
	walk(path, func(path string, entry fs.DirEntry) {
		if !entry.IsDir() {
			return
		}
		if info, err := entry.Info(); err == nil {
			folders[path] = info
			s.inside[path] = true
		}
	})
}

// treeStamp is a number that changes when a file in the tree does.
func treeStamp(root string) uint64 {
	h := fnv.New64a()
	walk(root, func(path string, entry fs.DirEntry) {
		info, err := entry.Info()
		if err != nil {
			return
		}
		_, _ = io.WriteString(h, path)                                                     // a hash takes everything
		number := binary.LittleEndian.AppendUint64(nil, uint64(info.ModTime().UnixNano())) //nolint:gosec // only its bits count
		number = binary.LittleEndian.AppendUint64(number, uint64(info.Size()))             //nolint:gosec // only its bits count
		_, _ = h.Write(binary.LittleEndian.AppendUint32(number, uint32(info.Mode())))
	})
	return h.Sum64()
}
