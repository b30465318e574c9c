//go:build linux || freebsd || openbsd || netbsd

package wakeup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

// The interface of logind, see org.freedesktop.login1(5).
const (
	logindName      = "org.freedesktop.login1"
	logindPath      = "/org/freedesktop/login1"
	logindInterface = "org.freedesktop.login1.Manager"
	sleepSignal     = "PrepareForSleep"
)

const (
	// addressVar and defaultAddress say where the system bus is.
	addressVar     = "DBUS_SYSTEM_BUS_ADDRESS"
	defaultAddress = "unix:path=/run/dbus/system_bus_socket"
	// busDeadline is how long the bus may take until it is listened to.
	busDeadline = 5 * time.Second
	// busPause is how long a bus that is missing is left alone.
	busPause = 5 * time.Minute
)

// What is wrong with a bus.
var (
	errBusSlow    = errors.New("no answer in time")
	errBusLost    = errors.New("the connection was lost")
	errNoLogind   = errors.New("logind is not there")
	errBusAddress = errors.New("only sockets (unix:) are supported")
)

// logind listens to logind on the system bus, by a connection of its own. Anyone
// on the bus could send such a signal straight to us; all it does is to have
// servers looked at, once in [oneResume].
type logind struct {
	environ  func(string) string
	log      *slog.Logger
	deadline time.Duration
	pause    time.Duration
}

func newLogind(o Options) *logind {
	return &logind{environ: o.Environ, log: o.Log, deadline: busDeadline, pause: busPause}
}

// follow listens until ctx ends. A bus that is missing or lost is tried again
// and again; it is logged when it is missing from the start, and when it is lost.
func (l *logind) follow(ctx context.Context, report func(event)) error {
	retry := time.NewTimer(0)
	defer retry.Stop()
	logged := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-retry.C:
		}
		err := l.listen(ctx, report)
		if ctx.Err() != nil {
			return nil
		}
		if !logged || errors.Is(err, errBusLost) {
			l.log.Debug("logind does not tell of sleep, the clocks do", "err", err)
			logged = true
		}
		retry.Reset(l.pause)
	}
}

// listen connects and reports every resume; it ends with an error, [errBusLost]
// if it had been connected, or with ctx.
func (l *logind) listen(ctx context.Context, report func(event)) error {
	address, err := l.address()
	if err != nil {
		return err
	}
	ctx, hangUp := context.WithCancel(ctx) // the connection lives as long as ctx
	defer hangUp()
	tooLate := time.AfterFunc(l.deadline, hangUp)
	signals, err := subscribe(ctx, address)
	if !tooLate.Stop() {
		err = errBusSlow
	}
	if err != nil {
		return fmt.Errorf("connecting to logind by the system bus at %s: %w", address, err)
	}
	report(logindFound)
	defer report(logindLost)
	for {
		select {
		case <-ctx.Done():
			return nil
		case s, ok := <-signals:
			if !ok {
				return fmt.Errorf("listening on the system bus at %s: %w", address, errBusLost)
			}
			if isResume(s) {
				report(resumeTold)
			}
		}
	}
}

// address is where the system bus is. The bus library is not asked: it knows
// kinds of addresses that take their time whatever the deadline.
func (l *logind) address() (string, error) {
	address := l.environ(addressVar)
	if address == "" {
		return defaultAddress, nil
	}
	for one := range strings.SplitSeq(address, ";") {
		if !strings.HasPrefix(one, "unix:") {
			return "", fmt.Errorf("finding the system bus by %s: %w", addressVar, errBusAddress)
		}
	}
	return address, nil
}

// subscribe opens a connection that ends with ctx, and fails where there is no
// logind; one that starts again later is listened to as well. The channel is closed when
// the connection ends.
func subscribe(ctx context.Context, address string) (<-chan *dbus.Signal, error) {
	conn, err := dbus.Connect(address, dbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	signals := make(chan *dbus.Signal, 4)
	conn.Signal(signals)
	if err := askForSignal(ctx, conn); err != nil {
		_ = conn.Close() // of no use without the signal
		return nil, err
	}
	return signals, nil
}

func askForSignal(ctx context.Context, conn *dbus.Conn) error {
	err := conn.AddMatchSignalContext(ctx,
		dbus.WithMatchSender(logindName),
		dbus.WithMatchObjectPath(logindPath),
		dbus.WithMatchInterface(logindInterface),
		dbus.WithMatchMember(sleepSignal))
	if err != nil {
		return fmt.Errorf("asking for the signal: %w", err)
	}
	var there bool
	err = conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, logindName).Store(&there)
	if err != nil {
		return fmt.Errorf("asking for logind: %w", err)
	}
	if !there {
		return errNoLogind
	}
	return nil
}

// isResume reports whether a signal says that the machine has resumed; the same
// signal with true says that it is about to sleep.
func isResume(s *dbus.Signal) bool {
	if s.Name != logindInterface+"."+sleepSignal || s.Path != logindPath || len(s.Body) != 1 {
		return false
	}
	asleep, ok := s.Body[0].(bool)
	return ok && !asleep
}
