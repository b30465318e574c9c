package jsonrpc

import "sync"

// Burst lets lines that come together leave together. Whoever reads several lines at
// once says so; what is queued meanwhile, by anybody, leaves when that reader is done
// with them. Between Begin and End nobody may wait for anything. A nil Burst never
// holds anything.
type Burst struct {
	mu sync.Mutex
	// readers is how many are between Begin and End.
	readers int
	held    []*Writer
}

// Begin says that more lines are at hand.
func (b *Burst) Begin() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers++
}

// End sends what was held, by whomever.
func (b *Burst) End() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.readers--
	held := b.held
	b.held = nil
	b.mu.Unlock()
	for _, w := range held {
		w.release()
	}
}

// holds reports whether w, whose lock is held, is to wait for the end of a burst.
func (b *Burst) holds(w *Writer) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.readers > 0 {
		b.held = append(b.held, w)
	}
	return b.readers > 0
}

// Lines calls next, which reads and handles one line of r, until it fails, and returns
// the error. Lines that come together make a burst.
func (b *Burst) Lines(r *Reader, next func() error) error {
	bursting := false
	defer func() {
		if bursting {
			b.End()
		}
	}()
	for {
		if err := next(); err != nil {
			return err
		}
		if more := r.More(); more != bursting {
			if bursting = more; more {
				b.Begin()
			} else {
				b.End()
			}
		}
	}
}
