package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// writes keeps every write that it gets, and may fail from the nth on.
type writes struct {
	all  []string
	fail error
	from int
}

func (w *writes) Write(p []byte) (int, error) {
	if w.fail != nil && len(w.all) >= w.from {
		return 0, w.fail
	}
	w.all = append(w.all, string(p))
	return len(p), nil
}

func mustWrite(t testing.TB, w *Writer, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if err := w.Write([]byte(line)); err != nil {
			t.Fatalf("Write(%.40s): %v", line, err)
		}
	}
}

func TestWriterGathersSmallLines(t *testing.T) {
	big := strings.Repeat("b", gatherSize)
	half := strings.Repeat("h", gatherSize/2-1) // with its newline just half
	tests := map[string]struct{ lines, want []string }{
		"one":                 {[]string{"a"}, []string{"a\n"}},
		"several":             {[]string{"a", "b", "c"}, []string{"a\nb\nc\n"}},
		"just full":           {[]string{half, half, "x"}, []string{half + "\n" + half + "\n", "x\n"}},
		"a big one alone":     {[]string{big}, []string{big + "\n"}},
		"big between small":   {[]string{"a", "b", big, "c", "d"}, []string{"a\nb\n", big + "\n", "c\nd\n"}},
		"small behind a big":  {[]string{big, "a"}, []string{big + "\n", "a\n"}},
		"big behind a small":  {[]string{"a", big}, []string{"a\n", big + "\n"}},
		"an empty one":        {[]string{"", "a"}, []string{"\na\n"}},
		"nothing":             {nil, nil},
		"two big, then small": {[]string{big, big, "a", "b"}, []string{big + "\n", big + "\n", "a\nb\n"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w, dst := NewWriter(1<<20, nil), &writes{}
			mustWrite(t, w, test.lines...)
			w.Close()
			if err := w.Run(dst, 0); err != nil {
				t.Fatalf("Run: %v", err)
			}
			if fmt.Sprint(dst.all) != fmt.Sprint(test.want) || len(dst.all) != len(test.want) {
				t.Errorf("%d writes, want %d: %.80q", len(dst.all), len(test.want), dst.all)
			}
		})
	}
}

// What was written is given to the stream once and then left alone: a caller may
// still read the message, to log it or to send it again elsewhere.
func TestWriterLeavesMessagesUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dst := NewWriter(1<<20, nil), &writes{}
		done := make(chan error, 1)
		go func() { done <- w.Run(dst, 0) }()
		alone := append(make([]byte, 0, 4096), "alone"...)
		if err := w.Write(alone); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it went out by itself
		mustWrite(t, w, "several", "small", "ones")
		synctest.Wait()
		w.Close()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if string(alone) != "alone" {
			t.Errorf("the message became %q", alone)
		}
	})
}

func TestWriterBoundsWhatWaits(t *testing.T) {
	w := NewWriter(10, nil)
	mustWrite(t, w, "12345") // 6 with its newline
	if err := w.Write([]byte("12345")); !errors.Is(err, ErrBacklog) {
		t.Errorf("err = %v, want ErrBacklog", err)
	}
	mustWrite(t, w, "1234") // 4 more fill it
	if err := w.Write([]byte("x")); !errors.Is(err, ErrBacklog) {
		t.Errorf("err = %v, want ErrBacklog", err)
	}
	w.Close()
	dst := &writes{}
	if err := w.Run(dst, 0); err != nil || strings.Join(dst.all, "") != "12345\n1234\n" {
		t.Errorf("wrote %q, %v", dst.all, err)
	}

	w = NewWriter(10, nil)
	mustWrite(t, w, strings.Repeat("long", 100)) // nothing waited
	if err := w.Write([]byte("x")); !errors.Is(err, ErrBacklog) {
		t.Errorf("behind a long one: %v, want ErrBacklog", err)
	}
}

func TestWriterMakesRoomByWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := io.Pipe()
		w := NewWriter(10, nil)
		done := make(chan error, 1)
		go func() { done <- w.Run(theirs, 0) }()
		mustWrite(t, w, "first....")
		synctest.Wait() // taken by Run, which now waits for the reader
		mustWrite(t, w, "second...")
		if err := w.Write([]byte("third")); !errors.Is(err, ErrBacklog) {
			t.Errorf("err = %v, want ErrBacklog", err)
		}
		r := NewReader(ours, 0)
		for _, want := range []string{"first....", "second..."} {
			if line, err := r.Read(); err != nil || string(line) != want {
				t.Fatalf("%q, %v; want %q", line, err, want)
			}
		}
		synctest.Wait()
		mustWrite(t, w, "third")
		if line, err := r.Read(); err != nil || string(line) != "third" {
			t.Fatalf("%q, %v; want third", line, err)
		}
		w.Close()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestWriterCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := io.Pipe()
		w := NewWriter(1<<20, nil)
		done := make(chan error, 1)
		go func() { done <- w.Run(theirs, 0) }()
		mustWrite(t, w, "a")
		synctest.Wait()
		mustWrite(t, w, "b", "c")
		w.Close()
		w.Close() // may be called again
		if err := w.Write([]byte("late")); !errors.Is(err, ErrClosed) {
			t.Errorf("err = %v, want ErrClosed", err)
		}
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("Run returned with lines waiting: %v", err)
		default:
		}
		r := NewReader(ours, 0)
		for _, want := range []string{"a", "b", "c"} {
			if line, err := r.Read(); err != nil || string(line) != want {
				t.Fatalf("%q, %v; want %q", line, err, want)
			}
		}
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestWriterEndsWhenWritingFails(t *testing.T) {
	broken := errors.New("broken pipe")
	big := strings.Repeat("b", gatherSize)
	w, dst := NewWriter(1<<20, nil), &writes{fail: broken, from: 1}
	mustWrite(t, w, big, "never")
	if err := w.Run(dst, 0); !errors.Is(err, broken) {
		t.Errorf("err = %v, want %v", err, broken)
	}
	if len(dst.all) != 1 {
		t.Errorf("%d writes went out, want 1", len(dst.all))
	}
	if err := w.Write([]byte("x")); !errors.Is(err, ErrClosed) {
		t.Errorf("err = %v, want ErrClosed", err)
	}
}

func TestInvariant6_WriterGivesUpAReceiverThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		defer theirs.Close()
		w := NewWriter(100, nil)
		done := make(chan error, 1)
		begin := time.Now()
		go func() { done <- w.Run(theirs, 10*time.Second) }()

		// One who reads slowly is not given up: every write has its own time.
		r := NewReader(ours, 0)
		for range 3 {
			mustWrite(t, w, "slow")
			time.Sleep(9 * time.Second)
			if _, err := r.Read(); err != nil {
				t.Fatalf("Read: %v", err)
			}
		}
		time.Sleep(time.Hour) // having nothing to send is no stall
		mustWrite(t, w, "into the void")
		stalled := time.Now()
		synctest.Wait()
		// Meanwhile whoever sends is not held up.
		for err := error(nil); err == nil; {
			err = w.Write([]byte("more"))
			if err != nil && !errors.Is(err, ErrBacklog) {
				t.Fatalf("err = %v, want ErrBacklog", err)
			}
		}
		if now := time.Now(); now != stalled {
			t.Errorf("writing took %v", now.Sub(stalled))
		}
		if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Run: %v, want a deadline exceeded", err)
		}
		if took := time.Since(stalled); took != 10*time.Second {
			t.Errorf("given up after %v, want 10s (%v after the begin)", took, time.Since(begin))
		}
		if err := w.Write([]byte("x")); !errors.Is(err, ErrClosed) {
			t.Errorf("err = %v, want ErrClosed", err)
		}
	})
}

func TestWriterWithoutStallWaitsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		w := NewWriter(100, nil)
		done := make(chan error, 1)
		go func() { done <- w.Run(theirs, 0) }()
		mustWrite(t, w, "patience")
		time.Sleep(100 * time.Hour)
		if line, err := NewReader(ours, 0).Read(); err != nil || string(line) != "patience" {
			t.Errorf("%q, %v", line, err)
		}
		w.Close()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestWriterLosesNothing(t *testing.T) {
	const writers, each = 8, 500
	ours, theirs := io.Pipe()
	w := NewWriter(64<<20, nil)
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(theirs, 0); err != nil {
			t.Errorf("Run: %v", err)
		}
		theirs.Close()
	})
	var sending sync.WaitGroup
	for n := range writers {
		sending.Go(func() {
			for i := range each {
				line := fmt.Appendf(nil, "%d %d ", n, i)
				// Now and then one that does not fit into a gathered write.
				if i%100 == 99 {
					line = append(line, bytes.Repeat([]byte("x"), 2*gatherSize)...)
				}
				if err := w.Write(line); err != nil {
					t.Errorf("Write: %v", err)
				}
			}
		})
	}
	running.Go(func() { sending.Wait(); w.Close() })

	var next [writers]int
	r := NewReader(ours, 0)
	for {
		line, err := r.Read()
		if err != nil {
			break
		}
		var n, i int
		if _, err := fmt.Sscanf(string(line[:min(len(line), 20)]), "%d %d", &n, &i); err != nil {
			t.Fatalf("line %.40q: %v", line, err)
		}
		if i != next[n] {
			t.Fatalf("writer %d: line %d came, want %d", n, i, next[n])
		}
		next[n]++
	}
	running.Wait()
	for n, got := range next {
		if got != each {
			t.Errorf("writer %d: %d lines came, want %d", n, got, each)
		}
	}
}
