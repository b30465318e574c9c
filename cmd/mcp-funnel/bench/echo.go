package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// manyTools is how many tools the server of the whole-path run has.
const manyTools = 1000

// largeAnswer is the size of the answer of the tool "large", in bytes.
const largeAnswer = 1 << 20

// results are what the server answers, made once, so that it does next to nothing
// for a request.
type results struct{ initialize, list, small, large, empty []byte }

func newResults(tools int) results {
	return results{
		initialize: []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"bench","version":"1"}}`),
		list:       toolList(tools),
		small:      []byte(`{"content":[{"type":"text","text":"hello, world"}]}`),
		large:      largeResult(),
		empty:      []byte(`{}`),
	}
}

// toolList has tools of the size that those of real servers have.
func toolList(tools int) []byte {
	var list bytes.Buffer
	list.WriteString(`{"tools":[` +
		`{"name":"small","description":"Say hello","inputSchema":{"type":"object","properties":{"message":{"type":"string"}}}},` +
		`{"name":"large","description":"Return a large text","inputSchema":{"type":"object","properties":{}}}`)
	for i := 2; i < tools; i++ {
		fmt.Fprintf(&list, `,{"name":"update_issue_%d","description":"Update issue kind %d in the repository, with its title, its body and its labels; returns the issue as JSON.",`+
			`"inputSchema":{"type":"object","properties":{"owner":{"type":"string","description":"The owner of the repository"},"repo":{"type":"string","description":"The name of the repository"},`+
			`"title":{"type":"string"},"body":{"type":"string"},"labels":{"type":"array","items":{"type":"string"}}},"required":["owner","repo"]}}`, i, i)
	}
	list.WriteString("]}")
	return list.Bytes()
}

// largeResult is a file of source code, with the escapes that brings.
func largeResult() []byte {
	const line = `\tif err := run(ctx, \"name\", args); err != nil {\n\t\treturn fmt.Errorf(\"running %q: %w\", name, err)\n\t}\n`
	return []byte(`{"content":[{"type":"text","text":"` + strings.Repeat(line, largeAnswer/len(line)+1) + `"}]}`)
}

// runEcho serves until in ends. Answers are written when no more requests are
// there yet, as servers with an event loop do.
func runEcho(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	tools := flags.Int("tools", 2, "how many tools it has")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all := newResults(*tools)
	reader, writer := bufio.NewReaderSize(in, 64<<10), bufio.NewWriterSize(out, 64<<10)
	for {
		line, err := reader.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a request: %w", err)
		}
		if id, ok := idOf(line); ok {
			answer(writer, id, all.of(line))
		}
		if reader.Buffered() == 0 {
			if err := writer.Flush(); err != nil {
				return fmt.Errorf("answering: %w", err)
			}
		}
	}
}

// answer writes one reply; a failure shows when the writer is flushed.
func answer(w *bufio.Writer, id, result []byte) {
	_, _ = w.WriteString(`{"jsonrpc":"2.0","id":`)
	_, _ = w.Write(id)
	_, _ = w.WriteString(`,"result":`)
	_, _ = w.Write(result)
	_, _ = w.WriteString("}\n")
}

// of finds the result for a request by the words in it.
func (r *results) of(line []byte) []byte {
	has := func(word string) bool { return bytes.Contains(line, []byte(word)) }
	switch {
	case has(`"tools/call"`) && has(`large"`):
		return r.large
	case has(`"tools/call"`):
		return r.small
	case has(`"tools/list"`):
		return r.list
	case has(`"initialize"`):
		return r.initialize
	}
	return r.empty
}

// idOf finds a message's id, a number, near its beginning: everybody on this path
// writes it there.
func idOf(line []byte) ([]byte, bool) {
	const key = `"id":`
	start := bytes.Index(line[:min(len(line), 64)], []byte(key))
	if start < 0 {
		return nil, false
	}
	rest := line[start+len(key):]
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	return rest[:digits], digits > 0
}
