package traytest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// Bus is a private session bus. Its daemon can start no services, so that
// nothing of the machine's desktop gets into a test.
type Bus struct {
	// Address is what DBUS_SESSION_BUS_ADDRESS would be.
	Address string
	// RuntimeDir is the folder with the socket `bus`, as XDG_RUNTIME_DIR would be.
	RuntimeDir string

	daemon *exec.Cmd
	ended  bool
}

const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><keep_umask/>
<listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>
`

// StartBus runs a bus until the test ends. Where dbus-daemon is not installed
// it skips the test, but fails it where the environment variable CI is set: there
// it must not go missing unnoticed.
func StartBus(t testing.TB) *Bus {
	t.Helper()
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("dbus-daemon is not installed")
		}
		t.Skip("dbus-daemon is not installed")
	}
	// Not t.TempDir: the path of a socket must be short.
	dir, err := os.MkdirTemp("/tmp", "traytest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := filepath.Join(dir, "bus.conf")
	socket := filepath.Join(dir, "bus")
	if err := os.WriteFile(config, fmt.Appendf(nil, busConfig, socket), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &Bus{
		Address:    "unix:path=" + socket,
		RuntimeDir: dir,
		daemon:     exec.Command(program, "--config-file="+config, "--nofork", "--nopidfile", "--print-address"),
	}
	out, err := b.daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("dbus-daemon gave no address: %v", err)
	}
	return b
}

// Stop ends the bus, as the end of a desktop session does. Stopping it twice does
// no harm; it is for the test's own goroutine.
func (b *Bus) Stop() {
	if b.ended {
		return
	}
	b.ended = true
	_ = b.daemon.Process.Kill() // it may have ended by itself
	_ = b.daemon.Wait()
}

// Connect opens a connection that is closed when the test ends.
func (b *Bus) Connect(t testing.TB) *dbus.Conn {
	t.Helper()
	conn, err := dbus.Connect(b.Address)
	if err != nil {
		t.Fatalf("connecting to the test's bus: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Environ looks up variables like [os.Getenv], in an environment that has only
// those given, as "NAME=value".
func Environ(variables ...string) func(string) string {
	return func(name string) string {
		for _, v := range variables {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

// Poll calls f until it returns nil, and returns its last error after d.
func Poll(d time.Duration, f func() error) error {
	end := time.Now().Add(d)
	for {
		err := f()
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
