package core

import "mcp-funnel/core/config"

// Notifications is what the desktop is to be told: what the configuration says.
// Whether the user wants any besides is [Funnel.NotificationsOn].
func (f *Funnel) Notifications() config.Notifications { return f.Config().Notifications }

// NotificationsOn reports whether the tick for notifications in the tray's menu is
// set. Notifications are shown where the configuration has them enabled as well.
func (f *Funnel) NotificationsOn() bool { return f.state.notifications() }

// SetNotifications sets the tick for notifications in the tray's menu, and keeps it
// over restarts. It fails when state.json cannot be read or written.
func (f *Funnel) SetNotifications(on bool) error { return f.state.setNotifications(on) }
