package tray

import "strings"

// host is what differs between the systems that show the tray.
type host struct {
	// bus: the icon is offered on the session bus and any program may show it.
	bus bool
	// ico: icons are in Windows' format.
	ico bool
	// mnemonic is the character that a menu label swallows, underlining the next
	// one, unless it is written twice; "" where there is none.
	mnemonic string
}

func hostOf(goos string) host {
	switch goos {
	case "windows":
		return host{ico: true, mnemonic: "&"}
	case "darwin":
		return host{}
	}
	// com.canonical.dbusmenu, property "label": two underscores are shown as
	// one, others are not shown.
	return host{bus: true, mnemonic: "_"}
}

// escape makes sure that label is shown as it is.
func (h host) escape(label string) string {
	if h.mnemonic == "" {
		return label
	}
	return strings.ReplaceAll(label, h.mnemonic, h.mnemonic+h.mnemonic)
}
