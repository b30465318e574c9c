package singleton

import (
	"errors"
	"os"
	"path/filepath"
)

const dirAdvice = "Set LOCALAPPDATA to a folder of your own with a short path"

// socketPathMax is how long the path of a socket may be: sun_path of afunix.h
// without the final NUL.
func socketPathMax() int { return 107 }

// places are where the system keeps such folders.
type places struct {
	localAppData string
}

func systemPlaces() places { return places{localAppData: os.Getenv("LOCALAPPDATA")} }

// candidates has the one folder that Windows keeps for the user alone: its ACL,
// inherited by what is made in it, is what keeps others out.
func candidates(p places) []candidate {
	switch {
	case p.localAppData == "":
		return []candidate{unusable("%LOCALAPPDATA%", errors.New("it is not set"))}
	case !filepath.IsAbs(p.localAppData):
		return []candidate{unusable(p.localAppData, errNotAbsolute)}
	}
	path := filepath.Join(p.localAppData, "mcp-funnel", "run")
	return []candidate{{path, func(path string) error { return os.MkdirAll(path, 0o700) }}}
}
