package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"strconv"

	"mcp-funnel/core/jsonrpc"
)

// pageSize is how many bytes of a list go into one result: few clients look beyond
// the first page, and a message can be only so long.
const pageSize = 16 << 20

// List is one list as clients get it.
type List struct {
	// pages are the results, each complete; there is one at least.
	pages [][]byte
	// Hash tells one list from another, also over the lives of the app.
	Hash string
}

// Page is the result for a cursor, "" for the first page; false when there is no such
// page. It must not be changed.
func (l List) Page(cursor string) ([]byte, bool) {
	n := 0
	if cursor != "" {
		var err error
		if n, err = strconv.Atoi(cursor); err != nil || n < 1 {
			return nil, false
		}
	}
	if n >= len(l.pages) {
		return nil, false
	}
	return l.pages[n], true
}

// lister gathers the elements of a list.
type lister struct {
	member string
	pages  [][]byte
	page   []byte
	empty  bool // page has no element yet
	sum    hash.Hash
}

func newLister(member string) *lister {
	l := &lister{member: member, sum: sha256.New()}
	l.begin()
	return l
}

func (l *lister) begin() { l.page, l.empty = []byte(`{"`+l.member+`":[`), true }

// add adds an element with text in the place of the span at, which is that of a
// string; an absent one changes nothing.
func (l *lister) add(raw []byte, at jsonrpc.Span, text string) {
	if at.Present() {
		raw = jsonrpc.Splice(raw, jsonrpc.Edit{Span: at, With: jsonrpc.Quote(text)})
	}
	if !l.empty && len(l.page)+len(raw) > pageSize {
		next := strconv.Itoa(len(l.pages) + 1)
		l.pages = append(l.pages, append(l.page, `],"nextCursor":"`+next+`"}`...))
		l.begin()
	}
	if !l.empty {
		l.page = append(l.page, ',')
	}
	l.empty = false
	l.page = append(l.page, raw...)
	_, _ = l.sum.Write(raw) // a hash takes everything
	_, _ = io.WriteString(l.sum, "\n")
}

func (l *lister) list() List {
	l.pages = append(l.pages, append(l.page, "]}"...))
	return List{pages: l.pages, Hash: hex.EncodeToString(l.sum.Sum(nil)[:8])}
}
