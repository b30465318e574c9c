package jsonrpc

import "io"

// gatherSize is how many bytes of small messages go into one write.
const gatherSize = 32 << 10

// Batch gathers small lines for a stream, so that those that come together leave in
// one write. The zero value is empty. Unlike a [Writer] it blocks when it writes, and
// belongs to one goroutine at a time.
type Batch struct{ buffer []byte }

// Add takes a line for dst, to which the newline is added; it is written at once
// when it is large, and else with the others. The line is not kept.
func (b *Batch) Add(dst io.Writer, line []byte) error {
	if len(b.buffer)+len(line) >= gatherSize {
		if err := b.Flush(dst); err != nil {
			return err
		}
	}
	if len(line) >= gatherSize {
		_, err := dst.Write(append(line, '\n'))
		return err
	}
	b.buffer = append(append(b.buffer, line...), '\n')
	return nil
}

// Flush writes what was gathered to dst.
func (b *Batch) Flush(dst io.Writer) error {
	if len(b.buffer) == 0 {
		return nil
	}
	_, err := dst.Write(b.buffer)
	b.buffer = b.buffer[:0]
	return err
}
