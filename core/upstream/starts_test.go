package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-funnel/core/config"
)

func TestPackageOf(t *testing.T) {
	for want, lines := range map[string][][]string{
		"npx @a/b":   {{"npx", "-y", "@a/b", "dir"}, {"/usr/bin/npx", "@a/b"}, {"C:/x/NPX.cmd", "--yes", "@a/b"}, {"npx", "-y", "--package=@a/b", "run"}},
		"npx @a/b@2": {{"npx", "-p", "@a/b@2", "-c", "b"}},
		"uvx tool":   {{"uvx", "tool", "--flag"}, {"uvx", "--from", "tool", "other"}, {"uvx", "--python", "3.12", "-p", "3.13", "--with=x", "tool"}},
		"uv tool":    {{"uv", "tool", "run", "tool"}},
		"npm x":      {{"npm", "exec", "--", "x"}},
		"npx y":      {{"npx", "--registry", "https://r", "--prefix=/d", "-y", "y"}},
		"":           {{"node", "x.js"}, {"npx"}, {"npx", "-y"}, {"npm", "start"}, {"uv", "run", "x"}, {"npx", "-p"}},
	} {
		for _, line := range lines {
			got := packageOf(config.Server{Type: config.Stdio, Command: line[0], Args: line[1:]})
			if got != want {
				t.Errorf("%v: %q, want %q", line, got, want)
			}
		}
	}
}

// Servers of one package start one after the other until one has been up; those of
// another package do not wait.
func TestServersOfOnePackageDoNotStartAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStarts()
		entry := func(name string) config.Server {
			return config.Server{Type: config.Stdio, Command: "npx", Args: []string{"-y", name}}
		}
		var mu sync.Mutex
		var starts []time.Duration
		began := time.Now()
		start := func(name string, up bool) {
			leave, err := s.enter(t.Context(), entry(name))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			starts = append(starts, time.Since(began))
			mu.Unlock()
			time.Sleep(10 * time.Second)
			leave(up)
		}
		go start("p", false)
		synctest.Wait()
		for range 3 {
			go start("p", true)
		}
		go start("other", true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.enter(ctx, entry("p")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("whoever waits does not end with its context: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []time.Duration{0, 0, 10 * time.Second, 20 * time.Second, 20 * time.Second}
		if !slices.Equal(starts, want) {
			t.Errorf("starts at %v, want %v: a failed one, one that comes up, then no turns", starts, want)
		}
	})
}
