package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
)

// runRelay copies between stdio and the socket until either side closes.
func runRelay(socket string) error {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	go func() {
		_, _ = io.Copy(c, os.Stdin)
		_ = c.Close() // ends the copying below
	}()
	_, _ = io.Copy(os.Stdout, c)
	return nil
}

// runRelayDaemon gives every connection a server process of its own and copies
// between them. It serves until it is killed.
func runRelayDaemon(socket string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	for {
		c, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("accepting: %w", err)
		}
		go serveRelayed(c)
	}
}

func serveRelayed(c net.Conn) {
	defer func() { _ = c.Close() }()
	cmd, err := echoCommand(manyTools)
	if err != nil {
		return
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return
	}
	if err := cmd.Start(); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(in, c)
		_ = in.Close() // ends the server
	}()
	_, _ = io.Copy(c, out)
	_ = cmd.Wait()
}

// echoCommand is the server with that many tools, as a child of this process.
func echoCommand(tools int) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program's file: %w", err)
	}
	cmd := exec.Command(self, echoArgs(tools)...) //nolint:noctx // it ends with its input
	cmd.Stderr = os.Stderr
	return cmd, nil
}

func echoArgs(tools int) []string { return []string{"echo", "-tools", fmt.Sprint(tools)} }
