package autostart

import (
	"path/filepath"
	"strings"
)

// xdgFolders keeps entries as files: one of the user's goes before one of the same
// name that was installed for everybody.
type xdgFolders struct {
	options Options
	// own is the user's file; shared those for everybody, the most important first.
	own    string
	shared []string
}

// marker is in files that this program wrote.
const marker = "X-MCP-Funnel"

func newXDGFolders(o Options) *xdgFolders {
	own := o.Environ("XDG_CONFIG_HOME")
	if !filepath.IsAbs(own) { // the base directory specification: such ones are to be ignored
		own = filepath.Join(o.Home, ".config")
	}
	shared := o.Environ("XDG_CONFIG_DIRS")
	if shared == "" {
		shared = "/etc/xdg"
	}
	file := filepath.Join("autostart", id+".desktop")
	x := &xdgFolders{options: o, own: filepath.Join(own, file)}
	for dir := range strings.SplitSeq(shared, ":") {
		if filepath.IsAbs(dir) {
			x.shared = append(x.shared, filepath.Join(dir, file))
		}
	}
	return x
}

func (x *xdgFolders) status() (Status, error) {
	off := Status{File: x.own}
	for _, path := range append([]string{x.own}, x.shared...) {
		data, err := readFile(path)
		if err != nil {
			return off, err
		}
		if data != nil { // those after it do not count
			return Status{On: starts(parseDesktopFile(data)), File: path}, nil
		}
	}
	return off, nil
}

// starts reports whether a desktop would start what f says.
func starts(f desktopFile) bool {
	return f.value("Hidden") != "true" && f.value("X-GNOME-Autostart-enabled") != "false" && f.value("Exec") != ""
}

// ours reports whether this program wrote f.
func ours(f desktopFile) bool { return f.value(marker) == "true" }

func (x *xdgFolders) enable() error {
	data, err := readFile(x.own)
	if err != nil {
		return err
	}
	f := parseDesktopFile(data)
	if data == nil || ours(f) || f.value("Exec") == "" {
		return writeFile(x.own, x.text())
	}
	if starts(f) {
		return nil // in the user's own words
	}
	return writeFile(x.own, f.set("Hidden", "").set("X-GNOME-Autostart-enabled", "").bytes())
}

func (x *xdgFolders) disable() error {
	data, err := readFile(x.own)
	if err != nil {
		return err
	}
	f := parseDesktopFile(data)
	switch {
	case data != nil && !ours(f):
		if !starts(f) {
			return nil
		}
		return writeFile(x.own, f.set("Hidden", "true").bytes())
	case x.sharedStarts():
		mask := desktopFile{group, "Type=Application", "Name=MCP Funnel", "Hidden=true", marker + "=true"}
		return writeFile(x.own, mask.bytes())
	}
	return removeFile(x.own)
}

// sharedStarts reports whether an entry for everybody would start the program if
// the user had none.
func (x *xdgFolders) sharedStarts() bool {
	for _, path := range x.shared {
		// One that cannot be read is none for the desktop either.
		if data, err := readFile(path); err == nil && data != nil {
			return starts(parseDesktopFile(data))
		}
	}
	return false
}

func (x *xdgFolders) refresh() (bool, error) {
	data, err := readFile(x.own)
	if err != nil {
		return false, err
	}
	f := parseDesktopFile(data)
	if !ours(f) || !starts(f) {
		return false, nil
	}
	if arguments, ok := splitExec(f.value("Exec")); ok && len(arguments) > 0 && executable(arguments[0]) {
		return false, nil
	}
	return true, writeFile(x.own, x.text())
}

// text is the entry as we write it.
func (x *xdgFolders) text() []byte {
	return desktopFile{
		group,
		"Type=Application",
		"Version=1.0",
		"Name=MCP Funnel",
		"Comment=Runs every MCP server once and shares it among all clients",
		"Exec=" + quoteExec(x.options.arguments()),
		"TryExec=" + escapeValue(x.options.Program),
		"Icon=mcp-funnel",
		"Terminal=false",
		"NoDisplay=true",
		"StartupNotify=false",
		"X-GNOME-Autostart-enabled=true",
		marker + "=true",
	}.bytes()
}
