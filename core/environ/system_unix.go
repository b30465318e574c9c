//go:build unix

package environ

import "io/fs"

// pathSeparators make a command a path.
const pathSeparators = "/"

// foldKey is what variables (and folders) are compared by.
func foldKey(key string) string { return key }

// belongsToSystem: nothing beyond the common list.
func belongsToSystem(string) bool { return false }

// extensions are what a command's file name can end with besides.
func extensions() []string { return []string{""} }

func mayExecute(_ string, info fs.FileInfo) bool { return info.Mode()&0o111 != 0 }
