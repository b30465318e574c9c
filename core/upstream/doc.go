// Package upstream keeps the connections to MCP servers: it starts and stops
// their processes, speaks the handshake, relays calls and brings back what was
// lost, for ever.
//
// An [Upstream] is one configured server. Its Run goroutine owns its state; what
// to do next is decided by machine, a pure function of the state and one input:
//
//	                 ┌──────────────── enable, Reconnect, new entry ───────────────┐
//	disabled/invalid ┤                                                             ▼
//	      ▲          └◄─ disable, wrong entry ─ any ──┐      ┌───────────────► connecting
//	      │                                           │      │ Reconnect           │ ok
//	      │                                           │      │                     ▼
//	      └───────────────────────────────────────────┴──────┼──────────────── connected
//	                                                         │                     │ lost
//	   needs_auth ◄── 401, 403 ── attempt ── other failure ──┤                     ▼
//	   (one try an hour)                                     └─────────────── reconnecting
//	                                                         ▲ ok                  │ attempts used up
//	                                                         └──────────────── slow_probe (for ever)
//
// A server of scope project or session is not one Upstream but a set of them, its
// instances: one for each project folder or client session, started when a session first
// needs it and ended some time after its last session left. The state idle is that of a
// server without instances; otherwise it has the state of its worst one. Both kinds are a
// [Server] to the rest of the program.
//
// Every attempt opens a fresh [Transport], and the next one begins only when the
// transport of the last one is closed and its processes are gone, so there is
// never a second one of a server.
//
// # Concurrency contract
//
// Run blocks and joins all it started. Every other exported method of [Upstream]
// and [Supervisor] may be called from any goroutine and does not block: orders
// (Reconnect, SetEnabled, Apply) are noted and carried out by Run, and requests
// are queued for the server or parked until it is back, with every reply given
// exactly once through the request's [Caller], on whichever goroutine has it.
//
// The package does not know tool names as clients see them, sessions, or files
// other than children.json and the servers' logs.
package upstream
