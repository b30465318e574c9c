package tray

import (
	"fmt"
	"strings"

	"mcp-funnel/assets"
	"mcp-funnel/core/status"
)

// Notice is a desktop notification. Its texts are plain, without markup.
type Notice struct {
	// Key says what it is about: a notice takes the place of an earlier one
	// with the same key.
	Key string
	// Title is empty where there is nothing to be shown, only to be closed.
	Title string
	Body  string
	Icon  assets.Shape
	// Server and State are those of the server it is about; empty for others.
	Server string
	State  status.State
	// Offers: the user can reconnect Server and see its log from the notice, where
	// the desktop has buttons.
	Offers bool
	// Closes are the keys of earlier notices that are not true any more, or
	// told better by this one.
	Closes []string
}

// The keys of notices that are about more than one server.
const (
	keyConfig  = "config"
	keySeveral = "several"
	keyLogins  = "several log-ins"
	keyCommand = "command"
)

func serverKey(name string) string { return "server " + name }

// faultNotice tells what has become of s.
func faultNotice(s status.Server, fault status.State) Notice {
	n := serverNotice(s, fault)
	n.Body = oneLine(s.LastError, bodyLimit)
	n.Offers = true
	switch fault {
	case status.NeedsAuth:
		n.Title += " needs a log-in"
	case status.SlowProbe:
		n.Title += ": slow probe"
	default:
		n.Title += " is reconnecting"
	}
	return n
}

// recoveryNotice tells that s works again after a fault that was told.
func recoveryNotice(s status.Server) Notice {
	n := serverNotice(s, status.Connected)
	n.Title += " recovered"
	n.Body = "Connected again, " + tools(s.Tools) + "."
	return n
}

// serverNotice is a notice about s that begins with its name.
func serverNotice(s status.Server, state status.State) Notice {
	return Notice{
		Key:    serverKey(s.Name),
		Title:  oneLine(s.Name, labelLimit),
		Icon:   shape(state),
		Server: s.Name,
		State:  state,
	}
}

// digestNotice tells the same of several servers. others are those that were told
// of before and are still down.
func digestNotice(k kind, names, others []string, allProbing bool) Notice {
	n := Notice{Key: keySeveral, Body: listNames(names) + "."}
	switch {
	case k == kindRecovery:
		n.Title, n.State = fmt.Sprintf("%d servers recovered", len(names)), status.Connected
		if len(others) > 0 {
			n.Body += " Still down: " + listNames(others) + "."
		}
	case k == kindLogin:
		n.Key, n.Title, n.State = keyLogins, fmt.Sprintf("%d servers need a log-in", len(names)), status.NeedsAuth
	case allProbing:
		n.Title, n.State = fmt.Sprintf("%d servers: slow probe", len(names)), status.SlowProbe
	default:
		n.Title, n.State = fmt.Sprintf("%d servers are reconnecting", len(names)), status.Reconnecting
	}
	n.Icon = shape(n.State)
	return n
}

// listNames lists the first names and counts the others.
func listNames(names []string) string {
	const listed, longest = 3, 40
	var shown []string
	for _, name := range names[:min(listed, len(names))] {
		shown = append(shown, oneLine(name, longest))
	}
	text := strings.Join(shown, ", ")
	if rest := len(names) - listed; rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

// configNotice tells that the configuration cannot be used.
func configNotice(problem string) Notice {
	return Notice{
		Key:   keyConfig,
		Title: "Configuration error",
		Body:  oneLine(problem, bodyLimit),
		Icon:  assets.Triangle,
	}
}

// commandNotice tells that something the user chose in the menu could not be done.
func commandNotice(what string, err error) Notice {
	return Notice{
		Key:   keyCommand,
		Title: oneLine(what+" failed", labelLimit),
		Body:  oneLine(err.Error(), bodyLimit),
		Icon:  assets.Triangle,
	}
}

// noticeAction is what the user chose on a notice about a server.
type noticeAction struct {
	entry  menuEntry
	server string
}
