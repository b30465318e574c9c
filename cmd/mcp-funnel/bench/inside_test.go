package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// BenchmarkInside is for profiles of bridge and app: -cpuprofile, -memprofile.
func BenchmarkInside(b *testing.B) {
	self := filepath.Join(b.TempDir(), "bench")
	build(b, self)
	p, err := newPlace("")
	if err != nil {
		b.Fatal(err)
	}
	p.self = self // the server cannot be this test
	b.Cleanup(func() {
		if err := p.remove(); err != nil {
			b.Error(err)
		}
	})
	in, err := openInside(b.Context(), p, manyTools)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := in.close(); err != nil {
			b.Error(err)
		}
	}()
	for name, c := range map[string]struct {
		request request
		atLeast int
	}{
		"small": {newRequest(0, "tools/call", `"name":"bench__small","arguments":{"message":"hello, world"},`), 1},
		"large": {newRequest(0, "tools/call", `"name":"bench__large",`), largeAnswer},
		"list":  {newRequest(0, "tools/list", ""), 100 * manyTools},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := in.client.call(0, c.request, c.atLeast); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("64callers", func(b *testing.B) {
		b.ReportAllocs()
		s := subject{client: in.client, prefix: "bench__"}
		for b.Loop() {
			if _, err := s.burst(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// build makes a program of this package.
func build(b *testing.B, path string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "go", "build", "-o", path, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("building: %v\n%s", err, out)
	}
}
