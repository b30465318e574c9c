package singleton

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// asOther calls do as another user, in a thread that ends with it: on Linux a
// user id belongs to a thread, and Go's own calls change all of them.
func asOther(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("becoming another user takes root")
	}
	const other = 54321
	done := make(chan syscall.Errno)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread is of no use to others
		_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, other, other, other)
		if errno == 0 {
			do()
		}
		done <- errno
	}()
	if errno := <-done; errno != 0 {
		t.Fatal(errno)
	}
}

func TestC137_AnotherUserIsKeptOutByMode(t *testing.T) {
	dir := privateDir(t)
	inst, err := Acquire(dir, Info{})
	mustDo(t, err)
	defer inst.Close()
	_, err = inst.Listen()
	mustDo(t, err)
	asOther(t, func() {
		if _, err := net.Dial("unix", filepath.Join(dir, socketName)); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("another user connects: %v", err)
		}
	})
}

// With the modes out of the way, the peer's credentials still keep others out,
// and the next user of our own is served.
func TestC137_AnotherUserIsKeptOutByCredentials(t *testing.T) {
	dir := privateDir(t)
	inst, err := Acquire(dir, Info{})
	mustDo(t, err)
	defer inst.Close()
	l, err := inst.Listen()
	mustDo(t, err)
	path := filepath.Join(dir, socketName)
	mustDo(t, os.Chmod(dir, 0o755))
	mustDo(t, os.Chmod(path, 0o666))

	accepted := make(chan net.Conn, 2)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	asOther(t, func() {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Errorf("the test's other user cannot connect: %v", err)
			return
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Error(err)
		}
		if n, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("another user is not hung up on: %d, %v", n, err)
		}
		var peer *PeerError
		if err := SamePeer(c); !errors.As(err, &peer) && err != nil {
			t.Errorf("SamePeer: %v", err)
		}
	})
	own, err := net.Dial("unix", path)
	mustDo(t, err)
	defer own.Close()
	c := <-accepted
	defer c.Close()
	if err := SamePeer(c); err != nil {
		t.Errorf("our own connection: %v", err)
	}
	if pid := peerPID(&Conn{Conn: c}); pid != os.Getpid() {
		t.Errorf("peer pid %d", pid)
	}
	mustDo(t, inst.Close())
	for range accepted {
		t.Error("another user's connection was accepted")
	}
}

// A socket that another user listens on is not greeted.
func TestC137_ServerOfAnotherUser(t *testing.T) {
	dir := privateDir(t)
	mustDo(t, os.Chmod(dir, 0o777))
	asOther(t, func() {
		l, err := net.Listen("unix", filepath.Join(dir, socketName))
		if err != nil {
			t.Errorf("the test's other user cannot listen: %v", err)
			return
		}
		defer l.Close()
		result := make(chan error)
		go func() { // in a thread of our own user
			_, _, err := Dial(t.Context(), dir, Hello{Role: RoleControl})
			result <- err
		}()
		var peer *PeerError
		if err := <-result; !errors.As(err, &peer) {
			t.Errorf("dialling gave %v", err)
		}
	})
}

func TestC130_ReadOnlyFolder(t *testing.T) {
	root := privateDir(t)
	mustDo(t, os.Chmod(root, 0o777|fs.ModeSticky))
	asOther(t, func() {
		p := places{
			xdg:     filepath.Join(root, "xdg"),
			perUser: filepath.Join(root, "run"),
			shared:  root,
			uid:     os.Geteuid(),
		}
		if p.uid == 0 {
			t.Error("the test's other user is root")
		}
		// Nothing can be made in the first, nothing written into the second.
		if err := errors.Join(os.Mkdir(p.xdg, 0o500), os.MkdirAll(p.perUser+"/mcp-funnel", 0o700),
			os.Chmod(p.perUser+"/mcp-funnel", 0o500)); err != nil {
			t.Error(err)
		}
		dir, err := firstUsable(candidates(p))
		if err != nil || dir != p.inTmp() {
			t.Errorf("%q, %v, want %q", dir, err, p.inTmp())
		}
	})
}
