//go:build e2e && linux

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-funnel/cmd/mcp-funnel/e2e/parts"
	"mcp-funnel/core"
)

// suite is a published suite of conformance scenarios for servers over HTTP.
type suite struct {
	part parts.Part
	args []string
	// scenarios is how many of them the pinned version runs.
	scenarios int
}

var suites = []suite{
	{part: conformance1, scenarios: 30},
	// The set is frozen by the date of the protocol that the funnel speaks.
	{part: conformance2, args: []string{"--requirements", "2025-11-25"}, scenarios: 33},
}

// ways are how the suites reach the server, in the order of the table's columns.
var ways = []string{"native", "stdio", "http"}

// conformance has what the suites found, by suite and by way.
type conformance struct {
	server  string
	address string
	found   map[string]map[string]findings
}

// TestConformance runs the conformance suites against go-sdk's server: over HTTP without
// the funnel (native), and through the funnel's HTTP endpoint with the server behind it
// over stdio, and over HTTP. What passes natively has to pass through the funnel. Then the
// suites are the server (client).
func TestConformance(t *testing.T) {
	c := &conformance{server: everythingServer(t), address: freeAddress(t), found: map[string]map[string]findings{}}
	wanted := []parts.Part{parts.Node(), conformance1, conformance2}
	play(t, "native", `{}`, wanted, func(u *user) string {
		u.ended = true // there is no instance
		c.native(u)
		u.nothingLeft()
		return c.count("native") + " without the funnel"
	})
	play(t, "stdio", c.config(`"command": "$SERVER"`), wanted, func(u *user) string {
		c.native(u)
		return c.through(u, "stdio")
	})
	play(t, "http", c.config(`"type": "http", "url": "http://$ADDRESS/mcp"`), wanted, func(u *user) string {
		c.native(u)
		defer c.serve(u)()
		return c.through(u, "http")
	})
	play(t, "client", `{}`, wanted, asClient)
	if len(c.found) == 0 {
		return
	}
	for _, s := range suites {
		fmt.Printf("\n%s", table(s.part.Name, c.found[s.part.Name]))
	}
	fmt.Println(departuresText())
}

// config is one with go-sdk's server alone, under its own names, and the endpoint.
func (c *conformance) config(entry string) string {
	entry = strings.NewReplacer("$SERVER", c.server, "$ADDRESS", c.address).Replace(entry)
	return fmt.Sprintf(`{ "mcpServers": { "everything": { %s, "prefix": "" } }, "http": { "listen": "127.0.0.1:0" } }`, entry)
}

// native finds out what passes without the funnel, once.
func (c *conformance) native(u *user) {
	u.t.Helper()
	if c.found[suites[0].part.Name]["native"] != nil {
		return
	}
	defer c.serve(u)()
	c.run(u, "native", "http://"+c.address+"/mcp")
	for _, s := range suites {
		found := c.found[s.part.Name]["native"]
		if len(found) < s.scenarios {
			u.t.Errorf("%s ran %d scenarios, want %d", s.part.Name, len(found), s.scenarios)
		}
		for _, lost := range found.failures() {
			u.t.Errorf("%s fails without the funnel: %s", s.part.Name, lost)
		}
	}
}

// through finds out what passes through the app, and complains of what does not.
func (c *conformance) through(u *user, way string) string {
	u.t.Helper()
	u.serve()
	report := u.status("the endpoint is open", func(r core.Report) bool { return r.HTTP.Listen != "" })
	token, err := os.ReadFile(u.path("state/mcp-funnel/http-token"))
	if err != nil {
		u.t.Fatal(err)
	}
	c.run(u, way, fmt.Sprintf("http://%s/mcp/%s", report.HTTP.Listen, strings.TrimSpace(string(token))))
	for _, s := range suites {
		found := c.found[s.part.Name]
		for _, lost := range found[way].lost(found["native"]) {
			u.t.Errorf("%s, %s: %s", s.part.Name, way, lost)
		}
	}
	return c.count(way) + " through the funnel; none fails that passes without it"
}

// run runs all suites, one after the other: the server asks the client that it serves.
func (c *conformance) run(u *user, way, url string) {
	u.t.Helper()
	for _, s := range suites {
		out := u.path(filepath.Join("checks", way, s.part.Name))
		found := s.run(u, way, out, append([]string{"server", "--url", url}, s.args...)...)
		if c.found[s.part.Name] == nil {
			c.found[s.part.Name] = map[string]findings{}
		}
		c.found[s.part.Name][way] = found
	}
}

// run runs the suite and returns what it wrote into the folder out.
func (s suite) run(u *user, name, out string, args ...string) findings {
	u.t.Helper()
	args = append([]string{s.part.Path("@modelcontextprotocol", "conformance", "dist", "index.js")}, args...)
	// It ends badly when a scenario fails; which, its findings tell.
	_, end := u.finish(name+"-"+s.part.Name, u.command(parts.NodeProgram(), append(args, "-o", out)...))
	found, err := readFindings(out)
	if err != nil || len(found) == 0 {
		u.t.Fatalf("%s found nothing: %v; it ended with %v", s.part.Name, err, end)
	}
	return found
}

// serve runs the server over HTTP until the returned function is called.
func (c *conformance) serve(u *user) (stop func()) {
	u.t.Helper()
	cmd := u.command(c.server, "-http", c.address, "-stateless=false")
	end := u.start("server", cmd)
	u.eventually("the server listens", func() bool {
		conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", c.address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return func() {
		_ = cmd.Process.Kill()
		<-end
	}
}

// count tells how many scenarios passed on the way.
func (c *conformance) count(way string) string {
	var counts []string
	for _, s := range suites {
		found := c.found[s.part.Name][way]
		passed, checks := 0, 0
		for _, scenario := range found {
			if scenario.ok() {
				passed++
			}
			checks += scenario.passed()
		}
		counts = append(counts, fmt.Sprintf("%d of %d scenarios (%d checks) of %s", passed, len(found), checks, s.part.Name))
	}
	return strings.Join(counts, " and ")
}

// freeAddress is one of this machine alone on which nobody listens now.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
