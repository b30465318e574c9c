package upstream

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-funnel/core/config"
)

// starts keeps servers that run from one package from starting at the same time
// while none of them has been up: package runners such as npx and uvx download into
// a cache that several of them at once break.
type starts struct {
	mu       sync.Mutex
	packages map[string]*packageStart
}

// packageStart is about one package of one runner.
type packageStart struct {
	// turn holds a token while a server starts.
	turn chan struct{}
	// up: a server has been up, so the package is in the cache. starts.mu is held.
	up bool
}

func newStarts() *starts { return &starts{packages: make(map[string]*packageStart)} }

// startTurn is how long a server waits for its turn at most: one that hangs must not
// keep the others away.
const startTurn = 20 * time.Second

// enter waits for entry's turn, not for ever, or for the end of ctx. After a start the
// caller calls leave with whether the server came up.
func (s *starts) enter(ctx context.Context, entry config.Server) (leave func(up bool), err error) {
	key := packageOf(entry)
	if key == "" {
		return func(bool) {}, nil
	}
	s.mu.Lock()
	p := s.packages[key]
	if p == nil {
		p = &packageStart{turn: make(chan struct{}, 1)}
		s.packages[key] = p
	}
	s.mu.Unlock()
	noteUp := func(up bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.up = p.up || up
	}
	timer := time.NewTimer(startTurn)
	defer timer.Stop()
	select {
	case p.turn <- struct{}{}:
	case <-timer.C:
		return noteUp, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another server that runs from %s: %w", key, context.Cause(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.up {
		<-p.turn // no turns any more
		return func(bool) {}, nil
	}
	return func(up bool) {
		noteUp(up)
		<-p.turn
	}, nil
}

// runners are the programs that download a package and run it, each with the words
// that have to follow for that.
func runners(command string) (words []string, ok bool) {
	switch command {
	case "npx", "bunx", "pnpx", "uvx":
		return nil, true
	case "npm":
		return []string{"exec"}, true
	case "pnpm", "yarn":
		return []string{"dlx"}, true
	case "bun":
		return []string{"x"}, true
	case "pipx":
		return []string{"run"}, true
	case "uv":
		return []string{"tool", "run"}, true
	}
	return nil, false
}

// packageOf is the runner and the package that entry starts from, such as "npx
// @scope/name"; "" when it is not known to start from one.
func packageOf(entry config.Server) string {
	if entry.Type != config.Stdio {
		return ""
	}
	command := strings.ToLower(filepath.Base(entry.Command))
	command = strings.TrimSuffix(strings.TrimSuffix(command, ".exe"), ".cmd")
	words, ok := runners(command)
	if !ok || len(entry.Args) < len(words) || !slices.Equal(entry.Args[:len(words)], words) {
		return ""
	}
	args := entry.Args[len(words):]
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		if !strings.HasPrefix(name, "-") {
			return command + " " + args[i]
		}
		if !given && i+1 < len(args) {
			value = args[i+1]
		}
		switch option(command, name) {
		case namesPackage:
			if value == "" {
				return ""
			}
			return command + " " + value
		case takesValue:
			if !given {
				i++
			}
		case takesNone:
		}
	}
	return ""
}

// optionKind is what an option of a runner means for us.
type optionKind uint8

const (
	takesNone optionKind = iota
	takesValue
	namesPackage
)

// option says what the runner's option of that name is. Those not listed take no value
// in front of the package.
func option(command, name string) optionKind {
	python := command == "uv" || command == "uvx"
	switch name {
	case "--package", "--from", "--spec":
		return namesPackage
	case "-p":
		if !python {
			return namesPackage
		}
		return takesValue // the version of Python
	case "--python", "--with", "--with-editable", "--with-requirements", "-w", "--index", "--index-url", "-i", "--extra-index-url",
		"--default-index", "--registry", "--prefix", "--cache", "--cache-dir", "--env-file", "--workspace", "--directory", "--project":
		return takesValue
	}
	return takesNone
}
