// Mcp-funnel is the one program of MCP Funnel: the tray app, the bridge that MCP
// clients run, and the commands that look at and steer the running instance.
//
// # Layout
//
// main.go hands over to run in root.go, which builds the command tree; each group
// of commands has a file. Commands that ask the instance something do so through
// control.go, a JSON-RPC client of its socket. The program keeps no logic of its
// own beyond parsing arguments and wording answers.
//
// # Rules for commands
//
// A command writes what was asked for to [environment.stdout] and everything else
// to stderr, and returns its errors; run prints them and picks the exit code. None
// of them waits for ever for an instance that does not answer.
package main
