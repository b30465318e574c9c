package clients

import "io/fs"

// checkOwner and checkFolder refuse nothing here: a new file takes its access rights
// from its folder, whoever writes it.
func checkOwner(string, fs.FileInfo, int) error { return nil }

func checkFolder(string, int) error { return nil }
