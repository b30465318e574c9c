package config

import (
	"slices"
	"strings"
	"testing"
)

func TestProjectFolderIsPutInEverywhere(t *testing.T) {
	s := valid(t, `{"command":"${PROJECT_DIR}/run","args":["--in=${PROJECT_DIR}","$${PROJECT_DIR}","${OTHER}"],
		"env":{"WHERE":"${PROJECT_DIR}","DB":"${PROJECT_DIR}/data.db","OR":"${PROJECT_DIR:-/none}"},
		"cwd":"${PROJECT_DIR}/sub","envFile":"${PROJECT_DIR}/.env","watch":["dist"]}`, "OTHER=${PROJECT_DIR}")
	if s.Scope != PerProject || !s.NeedsFolder || !s.OwnCwd {
		t.Errorf("scope %s, needs a folder %v", s.Scope, s.NeedsFolder)
	}
	in := s.In("/my project")
	if in.Command != "/my project/run" || in.Cwd != "/my project/sub" || in.EnvFile != "/my project/.env" || in.Watch[0] != "/my project/sub/dist" {
		t.Errorf("command %q, cwd %q, envFile %q, watch %q", in.Command, in.Cwd, in.EnvFile, in.Watch)
	}
	// What was escaped, or came out of a variable, is no variable.
	if want := []string{"--in=/my project", "${PROJECT_DIR}", "${PROJECT_DIR}"}; !slices.Equal(in.Args, want) {
		t.Errorf("args %q", in.Args)
	}
	if want := []string{"WHERE=/my project", "DB=/my project/data.db", "OR=/my project"}; !slices.Equal(in.Env, want) {
		t.Errorf("env %q", in.Env)
	}
	if !slices.Contains(in.Secrets, "/my project/data.db") || slices.Contains(in.Secrets, "/my project") {
		t.Errorf("secrets %q", in.Secrets)
	}
	if s.Args[0] == in.Args[0] || s.Fingerprint() == in.Fingerprint() {
		t.Error("the entry itself was changed")
	}
	if none := s.In(""); none.Env[2] != "OR=/none" || none.Env[0] != "WHERE=" {
		t.Errorf("without a folder: env %q", none.Env)
	}
}

func TestProjectFolderInAURL(t *testing.T) {
	s := valid(t, `{"url":"https://h/mcp?dir=${PROJECT_DIR}&key=abcdef","headers":{"X-Dir":"${PROJECT_DIR}"}}`)
	in := s.In("/a b&c=1?#")
	if in.URL != "https://h/mcp?dir=/a%20b%26c%3D1%3F%23&key=abcdef" || in.Headers["X-Dir"] != "/a b&c=1?#" {
		t.Errorf("url %s, headers %v", in.URL, in.Headers)
	}
	if !slices.Contains(in.Secrets, "abcdef") {
		t.Errorf("secrets %q", in.Secrets)
	}
}

func TestEntryWithoutCwdRunsInTheProject(t *testing.T) {
	s := valid(t, `{"command":"c","scope":"project"}`)
	if s.NeedsFolder || s.Cwd != "/home/u" || s.In("/p").Cwd != "/p" || s.In("").Cwd != "/home/u" {
		t.Errorf("%+v", s)
	}
}

func TestSharedServerHasNoProjectFolder(t *testing.T) {
	if s := valid(t, `{"command":"c","args":["${PROJECT_DIR:-/d}"],"scope":"shared"}`); s.Args[0] != "/d" {
		t.Errorf("args %q", s.Args)
	}
	c := mustParse(t, `{"mcpServers":{"x":{"command":"c","args":["${PROJECT_DIR}"],"scope":"shared"}}}`)
	if bad := c.Servers[0].Problem; bad == nil || !strings.Contains(bad.Message, "PROJECT_DIR") {
		t.Errorf("problem %v", bad)
	}
}

func TestLimitsOfInstances(t *testing.T) {
	if s := valid(t, `{"command":"c"}`); s.IdleTimeout != defaultIdleTimeout || s.MaxInstances != defaultMaxInstances {
		t.Errorf("%s, %d", s.IdleTimeout, s.MaxInstances)
	}
	if s := valid(t, `{"command":"c","idleTimeoutMs":0,"maxInstances":3}`); s.IdleTimeout != 0 || s.MaxInstances != 3 {
		t.Errorf("%s, %d", s.IdleTimeout, s.MaxInstances)
	}
	c := mustParse(t, `{"mcpServers":{"x":{"command":"c","maxInstances":0}}}`)
	if c.Servers[0].Problem == nil {
		t.Error("no instances at all were accepted")
	}
}
