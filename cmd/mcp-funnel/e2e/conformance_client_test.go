//go:build e2e && linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
)

// clientScenarios are those of a suite for clients that need no log-in, by the tool that
// has to be called. The suite's one about forms tests who fills them in.
var clientScenarios = []struct{ name, call string }{
	{"initialize", ""},
	{"tools_call", "add_numbers a=5 b=3"},
	{"sse-retry", "test_reconnection"}, // whose stream is closed before the answer
}

// clientScript runs the app with the server that the suite runs, calls a tool of it, and
// ends the app. The suite puts the server's address behind.
const clientScript = `#!/bin/sh
printf '{ "mcpServers": { "peer": { "url": "%%s", "prefix": "" } } }' "$1" >'%[1]s'
'%[2]s' serve &
until '%[2]s' status --json 2>/dev/null | grep -q '"state": *"connected"'; do sleep 0.1; done
%[3]s
'%[2]s' quit
`

// asClient runs the suites' scenarios for clients with the app as the client.
func asClient(u *user) string {
	u.ended = true // each scenario ends the app that it started
	passed, checks := 0, 0
	for _, s := range suites {
		for _, scenario := range clientScenarios {
			script := u.path("bin/" + scenario.name)
			call := ""
			if scenario.call != "" {
				call = fmt.Sprintf("'%s' call %s", u.launcher, scenario.call)
			}
			u.write("bin/"+scenario.name, fmt.Sprintf(clientScript, u.path("config/mcp-funnel/config.json"), u.launcher, call))
			if err := os.Chmod(script, 0o700); err != nil {
				u.t.Fatal(err)
			}
			out := u.path(filepath.Join("checks", s.part.Name, scenario.name))
			found := s.run(u, scenario.name, out, "client", "--command", script, "--scenario", scenario.name)
			for _, failed := range found.failures() {
				u.t.Errorf("%s: %s", s.part.Name, failed)
			}
			if !found[scenario.name].ok() {
				u.t.Errorf("%s: %s did not pass: %+v", s.part.Name, scenario.name, found)
				continue
			}
			passed++
			checks += found[scenario.name].passed()
		}
	}
	u.nothingLeft()
	return fmt.Sprintf("%d scenarios (%d checks) of %s and %s with the funnel as the client", passed, checks, suites[0].part.Name, suites[1].part.Name)
}
