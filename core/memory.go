package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2/maybe"

	"mcp-funnel/core/config"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/upstream"
)

// memory is catalog.json: the last good list of every server, so that its tools are
// there from the first moment of the next life. It is a cache: one that cannot be
// read is empty.
//
//	{"servers":{"NAME":{"entry":"fingerprint of its entry","instructions":"…","tools":[…],"prompts":[…],…}}}
//
// The elements stand in it byte for byte as their server wrote them. Its methods are
// called under the lock that reloads and merges hold.
type memory struct {
	path string
	log  *slog.Logger
	// text is the file as it is on disk.
	text []byte
}

// openMemory reads the file at path.
func openMemory(path string, log *slog.Logger) *memory {
	m := &memory{path: path, log: log}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		log.Warn("reading the remembered lists failed; servers are listed when they are connected", "err", err)
	case json.Valid(text):
		m.text = text
	}
	return m
}

// lists returns what was remembered of the server with this very entry.
func (m *memory) lists(entry config.Server) upstream.Lists {
	var lists upstream.Lists
	server, _ := jsonrpc.Lookup(m.text, jsonrpc.Whole(m.text), "servers", entry.Name)
	if known, _ := jsonrpc.LookupString(m.text, server, "entry"); known != entry.Fingerprint() {
		return lists
	}
	for _, kind := range upstream.AllKinds() {
		list, _ := jsonrpc.Lookup(m.text, server, kind.Member())
		for _, element := range jsonrpc.Elements(m.text, list) {
			*kind.Of(&lists) = append(*kind.Of(&lists), element.Of(m.text))
		}
	}
	lists.Instructions, _ = jsonrpc.LookupString(m.text, server, "instructions")
	return lists
}

// keep writes the lists of all servers, if they are not the ones on disk.
func (m *memory) keep(upstreams []upstream.Server) {
	text := encodeLists(upstreams)
	if string(text) == string(m.text) {
		return
	}
	err := os.MkdirAll(filepath.Dir(m.path), 0o700)
	if err == nil {
		err = maybe.WriteFile(m.path, text, 0o600)
	}
	if err != nil {
		m.log.Warn("remembering the lists failed; after the next start servers are listed when they are connected",
			"err", fmt.Errorf("writing %s: %w", m.path, err))
		return
	}
	m.text = text
}

// encodeLists writes the file's text by hand: an encoder would change the elements.
func encodeLists(upstreams []upstream.Server) []byte {
	text := []byte(`{"servers":{`)
	first := true
	for _, u := range upstreams {
		fingerprint, lists := u.LastGood()
		if lists.Empty() {
			continue
		}
		if !first {
			text = append(text, ',')
		}
		first = false
		text = append(append(text, jsonrpc.Quote(u.Name())...), `:{"entry":`...)
		text = append(append(text, jsonrpc.Quote(fingerprint)...), `,"instructions":`...)
		text = append(text, jsonrpc.Quote(lists.Instructions)...)
		for _, kind := range upstream.AllKinds() {
			text = append(append(text, `,"`+kind.Member()+`":[`...), bytes.Join(*kind.Of(&lists), []byte{','})...)
			text = append(text, ']')
		}
		text = append(text, '}')
	}
	return append(text, "}}\n"...)
}
