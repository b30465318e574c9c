package autostart

import (
	"bytes"
	"path/filepath"
	"slices"
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

// gnomeSwitch is what GNOME's settings write to switch an entry off.
const gnomeSwitch = "X-GNOME-Autostart-enabled"

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
	return f.value("Hidden") != "true" && f.value(gnomeSwitch) != "false" && f.value("Exec") != ""
}

// ours reports whether this program wrote f.
func ours(f desktopFile) bool { return f.value(marker) == "true" }

// program returns what f starts, where that is told as this program tells it: by the
// path that TryExec has as well. Whoever writes another command line means it.
func program(f desktopFile) (arguments []string, ok bool) {
	arguments, ok = splitExec(f.value("Exec"))
	ok = ok && len(arguments) > 0 && filepath.IsAbs(arguments[0]) && arguments[0] == unescapeValue(f.value("TryExec"))
	return arguments, ok
}

// withProgram returns f with the present program in it, and those arguments.
func (x *xdgFolders) withProgram(f desktopFile, arguments []string) desktopFile {
	command := append([]string{x.options.Program}, arguments...)
	return f.set("Exec", quoteExec(command)).set("TryExec", escapeValue(x.options.Program))
}

func (x *xdgFolders) enable() error {
	data, err := readFile(x.own)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(data)) == 0 || bytes.Equal(data, mask().bytes()) {
		return writeFile(x.own, x.text())
	}
	// The file may have been edited: what does not keep the program from being
	// started stays as it is.
	f := parseDesktopFile(data)
	if f.value("Hidden") == "true" {
		f = f.set("Hidden", "")
	}
	if f.value(gnomeSwitch) == "false" {
		f = f.set(gnomeSwitch, "true")
	}
	arguments, plain := program(f)
	switch {
	case f.value("Exec") == "":
		f = x.withProgram(f, x.options.arguments()[1:]).setDefault("Name", "MCP Funnel").setDefault("Type", "Application")
	case ours(f) && plain && arguments[0] != x.options.Program:
		f = x.withProgram(f, arguments[1:])
	}
	return x.rewrite(data, f)
}

// rewrite makes f of the file that has data, if that changes anything.
func (x *xdgFolders) rewrite(data []byte, f desktopFile) error {
	if slices.Equal(parseDesktopFile(data), f) {
		return nil
	}
	return writeFile(x.own, f.bytes())
}

func (x *xdgFolders) disable() error {
	data, err := readFile(x.own)
	if err != nil {
		return err
	}
	f := parseDesktopFile(data)
	switch {
	case data != nil && (!ours(f) || x.sharedStarts()):
		if f.value("Hidden") == "true" {
			return nil
		}
		return writeFile(x.own, f.set("Hidden", "true").bytes())
	case data == nil && x.sharedStarts():
		return writeFile(x.own, mask().bytes())
	}
	return removeFile(x.own)
}

// mask is an entry of the user's that does nothing but hide one for everybody.
func mask() desktopFile {
	return desktopFile{group, "Type=Application", "Name=MCP Funnel", "Hidden=true", marker + "=true"}
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
	arguments, plain := program(f)
	if !ours(f) || !starts(f) || !plain || !missing(arguments[0]) {
		return false, nil
	}
	return true, x.rewrite(data, x.withProgram(f, arguments[1:]))
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
		gnomeSwitch + "=true",
		marker + "=true",
	}.bytes()
}
