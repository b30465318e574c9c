package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// faulty is the built-in server with a fault. This test binary plays it under that
// name, which is in the PATH of a sandbox.
func faulty() {
	hang := flag.Bool("hang", false, "never answer")
	slow := flag.Duration("slow", 0, "wait so long before the first answer")
	wait := flag.String("wait-for", "", "answer nothing until this file is there")
	flood := flag.Int("flood", 0, "write so many bytes to stderr before each answer")
	pad := flag.Int("pad", 0, "make PAD in an answer so many bytes long")
	shut := flag.Bool("shut", false, "close stdout, and stay, when the tool hang is called")
	stay := flag.Bool("stay", false, "ignore the end of stdin")
	container := flag.String("container", "", "be a container: the file is there until 3 s after the end")
	deaf := flag.Bool("deaf", false, "of a container: end on SIGTERM, not with stdin")
	flag.Parse()

	if *container != "" {
		playContainer(*container, *deaf)
		return
	}
	if *hang {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	time.Sleep(*slow)
	for *wait != "" {
		if _, err := os.Stat(*wait); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	var in io.Reader = os.Stdin
	if *shut {
		in = &tripwire{in}
	}
	err := runDemoServer(in, &output{os.Stdout, *flood, *pad}, "", 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if *stay || *shut {
		time.Sleep(10 * time.Minute)
	}
}

// playContainer is `docker run`: the container, which is a file, is removed in 3 s
// once the client of docker is told to end. Whoever kills that client leaves it.
func playContainer(file string, deaf bool) {
	terms := make(chan os.Signal, 10)
	signal.Notify(terms, syscall.SIGTERM)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = runDemoServer(os.Stdin, os.Stdout, "", 0) // its end is all that matters
		if deaf {
			select {}
		}
	}()
	select {
	case <-over:
	case <-terms:
	}
	time.Sleep(3 * time.Second)
	_ = os.Remove(file) // that it is left tells the test
}

// output is stdout with what goes wrong there.
type output struct {
	io.Writer
	flood, pad int
}

func (o *output) Write(p []byte) (int, error) {
	if o.flood > 0 {
		fmt.Fprintln(os.Stderr, strings.Repeat("flood ", o.flood/6))
	}
	if before, after, found := bytes.Cut(p, []byte("PAD")); found {
		p = slices.Concat(before, bytes.Repeat([]byte("x"), o.pad), after)
	}
	return o.Writer.Write(p)
}

// tripwire closes stdout when the tool hang is called.
type tripwire struct{ io.Reader }

func (w *tripwire) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if bytes.Contains(p[:n], []byte(`"hang"`)) {
		_ = os.Stdout.Close()
	}
	return n, err
}
