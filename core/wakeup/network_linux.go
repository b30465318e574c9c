package wakeup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// messageRoom is more than the kernel puts into one message about an address.
const messageRoom = 8 << 10

// followNetwork reports addresses that are new until ctx ends. It watches
// addresses only: routes come along with them, and are announced again and again
// where routers do so.
func followNetwork(ctx context.Context, report func(event)) error {
	socket, err := openNetlink()
	if err != nil {
		return fmt.Errorf("watching the network: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = socket.Close() })()
	defer func() { _ = socket.Close() }()
	err = followAddresses(socket, loadAddresses, func() { report(addressFound) })
	if ctx.Err() != nil {
		return nil // the socket was closed for that
	}
	return fmt.Errorf("watching the network: %w", err)
}

// openNetlink opens a socket that the kernel tells of addresses, rtnetlink(7).
// Nobody else can, save root. It is not blocking, so that closing it ends a read.
func openNetlink() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	groups := uint32(unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		_ = unix.Close(fd) // it was not used
		return nil, os.NewSyscallError("bind", err)
	}
	return os.NewFile(uintptr(fd), "netlink"), nil
}

// followAddresses reads messages and calls found for those with a new address.
// load returns the addresses of this moment.
func followAddresses(messages io.Reader, load func() (addresses, error), found func()) error {
	known, err := load()
	if err != nil {
		return err
	}
	buf := make([]byte, messageRoom)
	for {
		n, err := messages.Read(buf)
		if errors.Is(err, unix.ENOBUFS) {
			// The kernel had more to tell than room to keep it.
			if known, err = load(); err != nil {
				return err
			}
			found()
			continue
		}
		if err != nil {
			return fmt.Errorf("reading from the kernel: %w", err)
		}
		if known.apply(parseMessages(buf[:n])) {
			found()
		}
	}
}

// loadAddresses asks the kernel for the addresses of all interfaces. Unlike
// package net it tells those that cannot be used yet from the others.
func loadAddresses() (addresses, error) {
	dump, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	known := addresses{}
	known.apply(parseMessages(dump))
	return known, nil
}
