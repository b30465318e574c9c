//go:build unix

package clients

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// checkOwner refuses a file that belongs to another user than self: what is put in its
// place would belong to self, and its owner might not be able to read it any more.
func checkOwner(path string, info fs.FileInfo, self int) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != self {
		return fmt.Errorf("%s belongs to user %d, and you are user %d: what you write there would be lost to its owner, "+
			"so nothing was done; run the command as that user", path, stat.Uid, self)
	}
	return nil
}

// checkFolder refuses to create the file at path for root in the home of somebody else,
// as with sudo. Others cannot but own what they create.
func checkFolder(path string, self int) error {
	if self != 0 {
		return nil
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil {
			return checkOwner(dir, info, self)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
