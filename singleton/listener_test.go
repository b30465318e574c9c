//go:build unix

package singleton

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a listener whose Accept fails with errs in turn, then as inner.
type scripted struct {
	net.Listener
	errs []error
}

func (s *scripted) Accept() (net.Conn, error) {
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
	}
	return s.Listener.Accept()
}

func TestAcceptSurvivesShortage(t *testing.T) {
	dir := privateDir(t)
	inner, err := net.Listen("unix", dir+"/s")
	mustDo(t, err)
	l := newListener(&scripted{inner, []error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED,
	}})
	defer l.Close()
	c, err := net.Dial("unix", dir+"/s")
	mustDo(t, err)
	defer c.Close()
	got, err := l.Accept()
	mustDo(t, err)
	got.Close()
}

func TestAcceptEndsOnOtherErrors(t *testing.T) {
	l := newListener(&scripted{errs: []error{syscall.EBADF}})
	if _, err := l.Accept(); !errors.Is(err, syscall.EBADF) {
		t.Errorf("error %v", err)
	}
}

// endless is out of descriptors for ever.
type endless struct{ net.Listener }

func (endless) Accept() (net.Conn, error) { return nil, syscall.EMFILE }
func (endless) Addr() net.Addr            { return nil }
func (endless) Close() error              { return nil }

func TestClosingEndsThePauseOfAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListener(endless{})
		ended := make(chan error)
		go func() {
			_, err := l.Accept()
			ended <- err
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		began := time.Now()
		mustDo(t, l.Close())
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("after %v", took)
		}
	})
}

// pipes hands out connections whose peer cannot be told.
type pipes struct {
	net.Listener
	conns chan net.Conn
}

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func TestC137_UnknownPeerIsKeptOut(t *testing.T) {
	p := pipes{conns: make(chan net.Conn, 1)}
	ours, theirs := net.Pipe()
	p.conns <- ours
	close(p.conns)
	if c, err := newListener(p).Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepted %v, %v", c, err)
	}
	if _, err := theirs.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
	if err := SamePeer(theirs); err == nil {
		t.Error("SamePeer lets a pipe in")
	}
}
