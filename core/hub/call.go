package hub

import (
	"bytes"
	"context"
	"errors"

	"mcp-funnel/core/catalog"
	"mcp-funnel/core/jsonrpc"
	"mcp-funnel/core/upstream"
)

// ErrUnknownTool says that no tool of that name is exposed.
var ErrUnknownTool = errors.New("there is no such tool; `mcp-funnel tools` lists them")

// Call calls a tool by its exposed name for somebody who is no MCP client, and
// returns the whole response. arguments is a JSON object, and folder where they work;
// a server with instances takes them for a session of its own.
func (h *Hub) Call(ctx context.Context, name string, arguments []byte, folder string) (jsonrpc.Message, error) {
	view := h.Catalog().View(catalog.Budget("", "", h.deps.NameLength()))
	route, ok := view.Tool(name)
	if !ok {
		return jsonrpc.Message{}, ErrUnknownTool
	}
	server, ok := h.deps.Lookup(route.Server)
	if !ok {
		return jsonrpc.Message{}, ErrUnknownTool
	}
	params := append(append([]byte(`{"name":`), jsonrpc.Quote(name)...), `,"arguments":`...)
	params = append(append(params, arguments...), '}')
	m, err := jsonrpc.Parse(jsonrpc.NewRequest(1, "tools/call", params))
	if err != nil {
		return jsonrpc.Message{}, err
	}
	caller := &soleCaller{id: h.NewID(), folder: folder, home: h.deps.Home, reply: make(chan []byte, 1)}
	if h.deps.Left != nil {
		defer h.deps.Left(caller)
	}
	at, _ := jsonrpc.Lookup(m.Raw, m.Params, "name")
	r := &upstream.Request{Message: m, Name: route.Quoted, NameAt: at, Label: name, Caller: caller, From: caller}
	server.Forward(r)
	select {
	case reply := <-caller.reply:
		return jsonrpc.Parse(reply)
	case <-ctx.Done():
		server.Cancel(r, nil)
		return jsonrpc.Message{}, context.Cause(ctx)
	}
}

// soleCaller waits for the reply to one request.
type soleCaller struct {
	id, folder, home string
	reply            chan []byte
}

func (c *soleCaller) ID() string { return c.id }

func (c *soleCaller) Label() string { return "command line" }

func (c *soleCaller) Folder(context.Context) (string, error) {
	if isProject(c.folder, c.home) {
		return c.folder, nil
	}
	return "", errNoFolder
}

func (c *soleCaller) Reply(_ *upstream.Request, reply []byte) { c.reply <- bytes.Clone(reply) }

func (c *soleCaller) Progress(*upstream.Request, []byte) {}

func (c *soleCaller) Tell([]byte) {}

func (c *soleCaller) Withdraw(*upstream.Question) {}

func (c *soleCaller) Ask(q *upstream.Question) {
	q.Refuse(&jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the call was made from a command line, where nobody answers requests"})
}
