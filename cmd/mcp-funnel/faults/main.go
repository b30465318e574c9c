//go:build linux

// Command faults breaks servers in every way that is known, behind the real app, and
// measures when that is noticed, when they are usable again, and what is left over.
//
//	faults [-app bin/mcp-funnel] [-short] [-only NAME] [-slack N] [-o FILE]
//	faults server [-mode MODE] …                    the server that breaks
//
// Each fault is played in a sandbox: a home, folders, config and app of its own. A
// mark in the environment, which every process hands on, finds what is left. Times
// are those of this program's clock, at which the app's event or the answer to a call
// came here.
//
// -short plays what takes seconds, with three times the limits of time; it is for
// machines that are busy. -o writes the table as Markdown. It ends with 1 when a
// fault does not go as expected. It runs on Linux only; some faults need root and are
// skipped without.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := ossignal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if len(os.Args) > 1 && os.Args[1] == "server" {
		stop() // a server decides for itself what signals do to it
	}
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

// lab is what all trials share.
type lab struct {
	program, self string
	short         bool
	slack         float64
}

// shortSlack is by how much -short stretches limits of time.
const shortSlack = 3

// run carries out one command line.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "server" {
		return runServer(args[1:], os.Stdin)
	}
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	app := flags.String("app", "bin/mcp-funnel", "the program to try")
	short := flags.Bool("short", false, "only what takes seconds")
	only := flags.String("only", "", "only the faults whose name contains this")
	slack := flags.Float64("slack", 0, "multiply limits of time by this; 0: by 3 with -short, else by 1")
	file := flags.String("o", "", "write the table into this file, as Markdown")
	if err := flags.Parse(args); err != nil {
		return err
	}
	l := &lab{short: *short, slack: *slack}
	if l.slack == 0 {
		l.slack = 1
		if l.short {
			l.slack = shortSlack
		}
	}
	var err error
	if l.program, err = filepath.Abs(*app); err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	if _, err = os.Stat(l.program); err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	if l.self, err = os.Executable(); err != nil {
		return fmt.Errorf("finding this program's file: %w", err)
	}
	chosen := choose(allFaults(), *only, l.short)
	if len(chosen) == 0 {
		return fmt.Errorf("no fault's name contains %q", *only)
	}
	return l.tryAll(ctx, chosen, *file, out)
}

// choose picks the faults to play.
func choose(all []fault, only string, short bool) []fault {
	var chosen []fault
	for _, f := range all {
		if strings.Contains(f.name, only) && (!short || !f.long) {
			chosen = append(chosen, f)
		}
	}
	return chosen
}

// allFaults are in the order of the table.
func allFaults() []fault {
	var all []fault
	for _, group := range [][]fault{
		lostFaults(), hungFaults(), leftFaults(), startFaults(), httpFaults(), silenceFaults(), appFaults(), numbers(), realFaults(),
	} {
		all = append(all, group...)
	}
	return all
}

// tryAll plays the faults and prints what came of them.
func (l *lab) tryAll(ctx context.Context, chosen []fault, file string, out io.Writer) error {
	begun := time.Now()
	r := l.play(ctx, chosen, out)
	if _, err := fmt.Fprintln(out); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	if err := r.print(out); err != nil {
		return err
	}
	if file != "" {
		about := fmt.Sprintf("Written by `make faults` in %s on %d cores. Times are from the break to what is named, with the shortest and the\n"+
			"longest where it was measured more than once; limits are in `cmd/mcp-funnel/faults`.", time.Since(begun).Round(time.Second), runtime.NumCPU())
		if err := os.WriteFile(file, []byte(r.markdown(about)), 0o644); err != nil { //nolint:gosec // a document
			return fmt.Errorf("writing the table: %w", err)
		}
	}
	if count := r.failures(); count > 0 {
		return fmt.Errorf("%d of %d faults did not go as expected", count, len(chosen))
	}
	return context.Cause(ctx)
}

// together is how many faults are played at once.
const together = 3

// play plays all faults, side by side where they may be.
func (l *lab) play(ctx context.Context, chosen []fault, out io.Writer) *report {
	rows, figures := make([]row, len(chosen)), make([][]figure, len(chosen))
	var told sync.Mutex
	one := func(i int) {
		if ctx.Err() != nil {
			rows[i] = row{fault: chosen[i].name, verdict: skipped, why: []string{"interrupted"}}
			return
		}
		begun := time.Now()
		rows[i], figures[i] = chosen[i].run(ctx, l)
		told.Lock()
		defer told.Unlock()
		_, _ = fmt.Fprintf(out, "%-7s %-28s %6.1f s\n", rows[i].verdict, chosen[i].name, time.Since(begun).Seconds())
	}
	var playing sync.WaitGroup
	slots := make(chan struct{}, together)
	for i, f := range chosen {
		if !f.alone {
			slots <- struct{}{}
			playing.Go(func() {
				defer func() { <-slots }()
				one(i)
			})
		}
	}
	playing.Wait()
	for i, f := range chosen {
		if f.alone {
			one(i)
		}
	}
	r := &report{rows: rows}
	for _, some := range figures {
		r.figures = append(r.figures, some...)
	}
	return r
}

// errMode: the server was asked for what it cannot do.
var errMode = errors.New("no such mode")
