// Command bench measures what the funnel costs on the way of a message, against
// goals. The same small server is called in three ways: directly, through two
// processes that copy bytes (stdio → unix socket → stdio) and know nothing of
// messages, and through a bridge and the app. The second is as fast as anything of
// this shape can be in Go, so the goals are ratios to it.
//
//	bench [-app bin/mcp-funnel] [-rounds 25]   measure and print the tables
//	bench echo [-tools N]                      the server
//	bench relay SOCKET                         the copying processes: what a client runs,
//	bench relayd SOCKET                        and what runs a server for each of them
//
// Only ratios within one round are compared, and of these the median over all
// rounds: a machine that gets slower hits all three alike. It runs on Linux, in
// private folders, and leaves nothing behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

// run carries out one command line.
func run(ctx context.Context, args []string, out io.Writer) error {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "echo":
		return runEcho(args[1:], os.Stdin, os.Stdout)
	case "relay", "relayd":
		if len(args) != 2 {
			return errors.New("usage: bench relay|relayd SOCKET")
		}
		if command == "relay" {
			return runRelay(args[1])
		}
		return runRelayDaemon(args[1])
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	app := flags.String("app", "bin/mcp-funnel", "the program to measure")
	rounds := flags.Int("rounds", 25, "rounds of the whole path")
	if err := flags.Parse(args); err != nil {
		return err
	}
	program, err := filepath.Abs(*app)
	if err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	return measure(ctx, program, *rounds, out)
}

// mostTime is how long everything may take.
const mostTime = 3 * time.Minute

var errTooLong = errors.New("it takes too long")

// measure does everything and prints the tables.
func measure(ctx context.Context, program string, rounds int, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, mostTime, errTooLong)
	defer cancel()
	p, err := newPlace(program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.remove()) }()

	var t table
	for _, part := range []func(context.Context, *place, *table) error{
		measureRest,
		measureAllocations,
		func(ctx context.Context, p *place, t *table) error { return measurePath(ctx, p, rounds, t) },
	} {
		if err := part(ctx, p, &t); err != nil {
			return err
		}
	}
	return t.print(out)
}
