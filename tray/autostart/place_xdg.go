//go:build !darwin && !windows

package autostart

func newPlace(o Options) place { return newXDGFolders(o) }
