package core

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"mcp-funnel/core/catalog"
	"mcp-funnel/core/config"
	"mcp-funnel/core/hub"
	"mcp-funnel/core/jsonrpc"
)

// ServeControl answers the requests of one controller (CLI, another start of the
// app) over a stream, in JSON-RPC 2.0, and returns when the stream or ctx ends.
func (f *Funnel) ServeControl(ctx context.Context, stream hub.Stream, r *bufio.Reader) error {
	c := &control{funnel: f, out: jsonrpc.NewWriter(controlBacklog, nil)}
	return c.run(ctx, stream, r)
}

const (
	// controlBacklog bounds the bytes that wait for one controller to read.
	controlBacklog = 8 << 20
	// controlStall is how long one may not read.
	controlStall = 10 * time.Second
)

// control is one control connection.
type control struct {
	funnel *Funnel
	out    *jsonrpc.Writer
	work   sync.WaitGroup
}

func (c *control) run(ctx context.Context, stream hub.Stream, r *bufio.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer c.work.Wait()
	defer cancel()
	written := make(chan struct{})
	c.work.Go(func() {
		defer close(written)
		// Whoever cannot be written to has gone, and reading ends as well.
		_ = c.out.Run(stream, controlStall)
		_ = stream.Close()
	})
	c.work.Go(func() {
		<-ctx.Done()
		c.out.Close()
		select {
		case <-written:
		case <-time.After(time.Second):
			_ = stream.Close() // it does not take the last words
		}
	})
	reader := jsonrpc.NewReader(r, 0)
	for {
		line, err := reader.Read()
		if err != nil {
			if errors.Is(err, io.EOF) || ctx.Err() != nil {
				return nil
			}
			return err
		}
		m, err := jsonrpc.Parse(line)
		if err != nil || m.Kind != jsonrpc.Request {
			c.reply(nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "not a request"})
			continue
		}
		c.work.Go(func() {
			last := c.funnel.events.Last() // nothing between the reply and the first event is lost
			result, err := c.handle(ctx, m)
			c.reply(m.ID.Of(m.Raw), result, err)
			if m.MethodName() == "events" && err == nil {
				c.stream(ctx, last)
			}
		})
	}
}

// reply sends the outcome of a request.
func (c *control) reply(id []byte, result any, err error) {
	if err != nil {
		var refusal *jsonrpc.Error
		if !errors.As(err, &refusal) {
			refusal = &jsonrpc.Error{Code: jsonrpc.CodeServerError, Message: err.Error()}
		}
		c.send(jsonrpc.NewError(id, refusal))
		return
	}
	encoded, done := result.(raw)
	if !done {
		if encoded, err = json.Marshal(result); err != nil {
			encoded = raw("null") // plain data always encodes
		}
	}
	c.send(jsonrpc.NewResult(id, encoded))
}

// send queues a line. A controller that reads too slowly loses lines; whoever
// follows events sees the gap in their numbers of attempts.
func (c *control) send(line []byte) { _ = c.out.Write(line) }

// arguments are the params of all control methods together.
type arguments struct {
	Name      string          `json:"name"`
	All       bool            `json:"all"`
	Query     string          `json:"query"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Reason    string          `json:"reason"`
	// Folder is where the caller works.
	Folder string `json:"folder"`
}

type empty struct{}

// raw is a result that is JSON already.
type raw []byte

// handle carries out one request.
func (c *control) handle(ctx context.Context, m jsonrpc.Message) (any, error) {
	var args arguments
	if params := m.Params.Of(m.Raw); params != nil {
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params: " + err.Error()}
		}
	}
	switch method := m.MethodName(); method {
	case "status":
		return c.funnel.Report(ctx), nil
	case "reconnect":
		return c.reconnect(ctx, args)
	case "enable", "disable":
		return empty{}, refusal(c.funnel.SetEnabled(ctx, args.Name, method == "enable"))
	case "events":
		return empty{}, nil
	case "tools":
		return c.tools(args.Query), nil
	case "call":
		return c.call(ctx, args)
	case "reload":
		return c.reload()
	case "quit":
		c.funnel.options.Quit(cmp.Or(args.Reason, "quit"))
		return empty{}, nil
	default:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "unknown control method " + method}
	}
}

// refusal gives a person's mistake the code for wrong parameters.
func refusal(err error) error {
	if _, ok := errors.AsType[*UnknownServerError](err); ok {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	return err
}

type reconnected struct {
	Reconnected []string `json:"reconnected"`
	// Note says what the user should know besides.
	Note string `json:"note,omitempty"`
}

func (c *control) reconnect(ctx context.Context, args arguments) (any, error) {
	result := reconnected{Reconnected: []string{args.Name}}
	var err error
	if args.All {
		result.Reconnected, err = c.funnel.reconnectAll(ctx)
	} else {
		err = c.funnel.Reconnect(ctx, args.Name)
	}
	if broken := c.funnel.ConfigError(); broken != nil {
		result.Note = "the config file cannot be used, so the last good one was started: " + broken.Error()
	}
	return result, refusal(err)
}

type toolList struct {
	Tools []catalog.Entry `json:"tools"`
}

// tools lists what a client we do not know would see, reduced to what query is
// found in.
func (c *control) tools(query string) toolList {
	list := toolList{Tools: []catalog.Entry{}}
	words := strings.Fields(strings.ToLower(query))
	for _, entry := range c.funnel.hub.Catalog().View(catalog.Budget("", "", c.funnel.Config().NameMaxLength)).Entries {
		text := strings.ToLower(entry.Name + " " + entry.Server + " " + entry.Tool + " " + entry.Description)
		found := true
		for _, word := range words {
			found = found && strings.Contains(text, word)
		}
		if found {
			list.Tools = append(list.Tools, entry)
		}
	}
	return list
}

func (c *control) call(ctx context.Context, args arguments) (any, error) {
	select { // just started: the tool may be about to come
	case <-c.funnel.ready:
	case <-ctx.Done():
	}
	arguments := []byte(args.Arguments)
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	reply, err := c.funnel.hub.Call(ctx, args.Tool, arguments, args.Folder)
	if err != nil {
		return nil, err
	}
	// As it came: encoding it again would change bytes.
	return raw(`{"response":` + string(reply.Raw) + `}`), nil
}

type reloaded struct {
	Added    []string `json:"added"`
	Removed  []string `json:"removed"`
	Changed  []string `json:"changed"`
	Warnings []string `json:"warnings"`
}

// exitInvalid is the exit code of the CLI for a wrong config; it travels in the
// error's data.
const exitInvalid = `{"exit":4}`

func (c *control) reload() (any, error) {
	changes, err := c.funnel.Reload()
	if _, ok := errors.AsType[*config.ParseError](err); ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeServerError, Message: err.Error(), Data: json.RawMessage(exitInvalid)}
	}
	if err != nil {
		return nil, err
	}
	return reloaded{
		Added: notNil(changes.Added), Removed: notNil(changes.Removed), Changed: notNil(changes.Changed),
		Warnings: notNil(texts(c.funnel.Config().Warnings)),
	}, nil
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// stream sends every event after number last, until ctx ends.
func (c *control) stream(ctx context.Context, last uint64) {
	for {
		events, next, _, err := c.funnel.events.Next(ctx, last)
		if err != nil {
			return // the connection is over
		}
		last = next
		for _, event := range events {
			encoded, err := json.Marshal(event)
			if err != nil {
				continue // plain data always encodes
			}
			c.send(jsonrpc.NewNotification("event", encoded))
		}
	}
}
