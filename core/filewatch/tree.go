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

// walk visits what is in the folder at root, in a fixed order. A folder that cannot be
// read is visited a second time, with the error. It stops after maxFolders and reports
// whether it saw everything.
func walk(root string, visit func(path string, entry fs.DirEntry, err error)) (all bool) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return true // not there: trace watches for it
	}
	folders := 0
	// The only errors are those that the function returns.
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && entry == nil:
			return nil
		case entry.IsDir() && path != root && skipped(entry.Name()):
			return filepath.SkipDir
		case entry.IsDir():
			if err == nil {
				folders++
			}
			if folders > maxFolders {
				return filepath.SkipAll
			}
		}
		visit(path, entry, err)
		return nil
	})
	return folders <= maxFolders
}

// enter notes every folder of the tree at path, if that is a folder.
func (s *watchSet) enter(path string, folders map[string]fs.FileInfo) {
	all := walk(path, func(path string, entry fs.DirEntry, err error) {
		if !entry.IsDir() {
			return
		}
		info, infoErr := entry.Info()
		if err != nil || infoErr != nil { // it cannot be watched either
			delete(folders, path)
			return
		}
		folders[path] = info
		s.inside[path] = true
	})
	if !all && !s.cut {
		s.cut = true
		s.log.Warn("a watched folder is too large: changes in a part of it go unnoticed", "folder", path, "limit", maxFolders)
	}
}

// treeStamp is a number that changes when a file in the tree does.
func treeStamp(root string) uint64 {
	h := fnv.New64a()
	walk(root, func(path string, entry fs.DirEntry, _ error) {
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
