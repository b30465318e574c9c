//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcp-funnel/core"
)

// otherVersion builds the program with another version of the socket protocol.
func otherVersion(t *testing.T, protocol int) string {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("go is not in the PATH")
	}
	dir := t.TempDir()
	path, err := filepath.Abs("../../singleton/hello.go")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const was = "const Protocol = 1\n"
	changed := strings.Replace(string(source), was, fmt.Sprintf("const Protocol = %d\n", protocol), 1)
	if changed == string(source) {
		t.Fatalf("%q is not in %s", was, path)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: filepath.Join(dir, "hello.go")}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "hello.go"), []byte(changed), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "mcp-funnel")
	build := exec.CommandContext(t.Context(), goTool, "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// An update replaces the program while sessions last: versions one step apart work
// with each other, and others say what to do.
func TestVersionsOfTheSocketProtocol(t *testing.T) {
	t.Parallel() // it mostly waits
	s := newWitnessed(t)
	one, two, three := s.program, otherVersion(t, 2), otherVersion(t, 3)

	first := s.start("serve")
	l := s.loadedClient("one")
	l.greet()
	wantResult(t, "11", l.call("11", 0, 0))
	s.program = two
	l2 := s.loadedClient("two")
	l2.greet()
	wantResult(t, "21", l2.call("21", 0, 0))

	second := s.launch("serve", "--replace")
	<-first.done
	s.report(func(r core.Report) bool { return r.PID == second.cmd.Process.Pid })
	wantResult(t, "12", l.call("12", 0, 0))
	wantResult(t, "22", l2.call("22", 0, 0))

	s.program = one
	if _, stderr, code := s.run("quit"); code != 0 {
		t.Fatalf("quit: %d, %s", code, stderr)
	}
	s.start("serve")
	s.program = three
	l3 := s.loadedClient("three")
	l3.greet()
	wantRefusal(t, l3.call("31", 0, 0), "speaks version 1", "speaks 3", "same version", "nothing was called")
	s.program = one
	if _, stderr, code := s.run("quit"); code != 0 {
		t.Fatalf("quit: %d, %s", code, stderr)
	}
	s.program = three
	s.start("serve")
	reply := ""
	s.eventuallyTrue("the session goes on once that is mended", func() bool {
		reply = l3.call(fmt.Sprintf("33 %d", len(reply)), 0, 0)
		return strings.Contains(reply, `"result"`)
	})
	wantRefusal(t, l.call("13", 0, 0), "speaks version 3", "speaks 1", "nothing was called")
	if _, stderr, code := s.run("quit"); code != 0 {
		t.Fatalf("quit: %d, %s", code, stderr)
	}
}
