// Package core is the funnel itself: one object that owns the configuration, the
// servers, the sessions and the picture of all that, and answers those who watch
// and control it.
//
//	config file ──► Funnel ──► upstream.Supervisor ──► servers
//	                  │              │ tools
//	                  │              ▼
//	                  │          catalog.Catalog
//	                  │              ▼
//	bridges ──────────┼────────► hub.Hub (sessions)
//	CLI, tray ────────┴────────► Control, Board, Events
//
// # Concurrency contract
//
// [Funnel.Run] blocks and joins all it started. Everything else may be called from
// any goroutine while Run is running.
//
// The package does not know the runtime folder's lock and socket, nor the desktop:
// whoever builds a Funnel brings it connections and shows what is on its board.
package core
