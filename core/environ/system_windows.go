package environ

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pathSeparators make a command a path.
const pathSeparators = `/\:`

// foldKey is what variables (and folders) are compared by.
func foldKey(key string) string { return strings.ToUpper(key) }

// belongsToSystem reports whether programs on Windows expect the variable.
func belongsToSystem(key string) bool {
	switch key {
	case "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "OS", "TEMP", "TMP",
		"APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "ALLUSERSPROFILE", "PUBLIC",
		"USERPROFILE", "USERNAME", "USERDOMAIN", "HOMEDRIVE", "HOMEPATH", "COMPUTERNAME",
		"NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE":
		return true
	}
	return strings.HasPrefix(key, "PROGRAMFILES") || strings.HasPrefix(key, "COMMONPROGRAM")
}

// extensions are those of PATHEXT; "" is for a command that has one already.
func extensions() []string {
	list := strings.FieldsFunc(strings.ToLower(os.Getenv("PATHEXT")), func(r rune) bool { return r == ';' })
	if len(list) == 0 {
		list = []string{".com", ".exe", ".bat", ".cmd"}
	}
	return append([]string{""}, list...)
}

func mayExecute(file string, _ fs.FileInfo) bool {
	extension := strings.ToLower(filepath.Ext(file))
	return extension != "" && slices.Contains(extensions(), extension)
}
