package tray

import (
	"mcp-funnel/assets"
	"mcp-funnel/core/status"
)

// Notice is a desktop notification. Its texts are plain, without markup.
type Notice struct {
	// Key says what it is about: a notice takes the place of an earlier one
	// with the same key.
	Key   string
	Title string
	Body  string
	Icon  assets.Shape
	// Server and State are those of the server it is about; empty for others.
	Server string
	State  status.State
}

// faultNotice tells that s does not work and will not soon.
func faultNotice(s status.Server) Notice {
	n := serverNotice(s)
	n.Body = oneLine(s.LastError, bodyLimit)
	if s.State == status.NeedsAuth {
		n.Title += " needs a log-in"
	} else {
		n.Title += ": slow probe"
	}
	return n
}

// recoveryNotice tells that s works again after a fault that was told.
func recoveryNotice(s status.Server) Notice {
	n := serverNotice(s)
	n.Title += " recovered"
	n.Body = "Connected again, " + tools(s.Tools) + "."
	return n
}

// serverNotice is a notice about s that begins with its name.
func serverNotice(s status.Server) Notice {
	return Notice{
		Key:    "server " + s.Name,
		Title:  oneLine(s.Name, labelLimit),
		Icon:   shape(s.State),
		Server: s.Name,
		State:  s.State,
	}
}
