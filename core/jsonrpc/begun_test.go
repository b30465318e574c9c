package jsonrpc

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// Begun never says of a line that it did not leave when a byte of it did.
func TestBegunCountsWhatMayHaveLeft(t *testing.T) {
	w := NewWriter(1<<20, nil)
	for i := range 3 {
		if place, err := w.Put([]byte("line")); err != nil || place != i+1 {
			t.Fatalf("place %d, %v", place, err)
		}
	}
	if got := w.Begun(); got != 0 {
		t.Errorf("%d begun before anybody writes", got)
	}
	r, pipe := io.Pipe()
	done := make(chan error)
	go func() { done <- w.Run(pipe, 0) }()
	if _, err := io.ReadFull(r, make([]byte, 7)); err != nil { // one line and a half
		t.Fatal(err)
	}
	_ = r.Close()
	if err := <-done; err == nil {
		t.Error("writing to a closed pipe did not fail")
	}
	if got := w.Begun(); got != 3 { // they left in one write
		t.Errorf("%d begun", got)
	}
}

func TestBegunForgetsAWriteOfWhichNothingWasTaken(t *testing.T) {
	r, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	w := NewWriter(1<<20, nil)
	done := make(chan error)
	go func() { done <- w.Run(pipe, 0) }()
	if _, err := w.Put([]byte("one")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	for _, line := range []string{"two", "three"} {
		if _, err := w.Put([]byte(line)); err != nil && !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}
	if err := <-done; err == nil {
		t.Error("writing to a closed pipe did not fail")
	}
	if got := w.Begun(); got != 1 {
		t.Errorf("%d begun, want the first one", got)
	}
}

func TestStopDropsWhatWaits(t *testing.T) {
	w := NewWriter(1<<20, nil)
	r, pipe := io.Pipe()
	done := make(chan error)
	go func() { done <- w.Run(pipe, 0) }()
	if _, err := w.Put([]byte("one")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil { // it is being written
		t.Fatal(err)
	}
	if _, err := w.Put([]byte("two")); err != nil {
		t.Fatal(err)
	}
	w.Stop()
	go func() { _, _ = io.Copy(io.Discard, r) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Run goes on")
	}
	if got := w.Begun(); got != 1 {
		t.Errorf("%d begun", got)
	}
	_ = r.Close()
}
