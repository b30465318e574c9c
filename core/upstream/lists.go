package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// Lists is what a server offers: the elements of its lists, each as it wrote them.
type Lists struct {
	Tools, Prompts, Resources, Templates [][]byte
	// Instructions are those for the model, "" for none.
	Instructions string
}

// Empty reports whether there is nothing at all.
func (l Lists) Empty() bool {
	return len(l.Tools)+len(l.Prompts)+len(l.Resources)+len(l.Templates) == 0 && l.Instructions == ""
}

// equal reports whether both are the same, byte for byte and in the same order.
func (l Lists) equal(other Lists) bool {
	for _, kind := range AllKinds() {
		if !slices.EqualFunc(*kind.Of(&l), *kind.Of(&other), bytes.Equal) {
			return false
		}
	}
	return l.Instructions == other.Instructions
}

// Kind is a kind of list.
type Kind uint8

// The kinds of lists.
const (
	Tools Kind = iota
	Prompts
	Resources
	Templates
	kinds
)

// Method is the method that asks for the list.
func (k Kind) Method() mcp.MCPMethod {
	return [kinds]mcp.MCPMethod{mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList}[k]
}

// Member is the member of the result that holds the list.
func (k Kind) Member() string {
	return [kinds]string{"tools", "prompts", "resources", "resourceTemplates"}[k]
}

// Capability is what a server declares that has such a list.
func (k Kind) Capability() string {
	return [kinds]string{"tools", "prompts", "resources", "resources"}[k]
}

// Of is the list of that kind.
func (k Kind) Of(l *Lists) *[][]byte {
	return [kinds]*[][]byte{&l.Tools, &l.Prompts, &l.Resources, &l.Templates}[k]
}

// AllKinds returns every kind, in the order of MCP's own documents.
func AllKinds() []Kind { return []Kind{Tools, Prompts, Resources, Templates} }

// kindSet holds kinds.
type kindSet uint8

func (s kindSet) has(k Kind) bool { return s&(1<<k) != 0 }
func (s kindSet) with(all ...Kind) kindSet {
	for _, k := range all {
		s |= 1 << k
	}
	return s
}

// changedKinds are the kinds that a notification says have changed.
func changedKinds(method string) kindSet {
	switch method {
	case string(mcp.MethodNotificationToolsListChanged):
		return kindSet(0).with(Tools)
	case string(mcp.MethodNotificationPromptsListChanged):
		return kindSet(0).with(Prompts)
	case string(mcp.MethodNotificationResourcesListChanged):
		return kindSet(0).with(Resources, Templates)
	}
	return 0
}

// maxPages bounds how long a server may go on about what it has.
const maxPages = 1000

// readLists reads those lists into a copy of old that want names and the server has.
// Without its tools a server is of no use, so that only an error there, or the end of
// the connection, is one; other lists that cannot be read are returned in skipped.
func (l *link) readLists(ctx context.Context, has, want kindSet, old Lists) (lists Lists, skipped []error, err error) {
	for _, kind := range AllKinds() {
		if !want.has(kind) {
			continue
		}
		*kind.Of(&old) = nil
		if !has.has(kind) {
			continue
		}
		elements, err := l.list(ctx, kind)
		_, refused := errors.AsType[*jsonrpc.Error](err)
		switch {
		case err == nil:
		case refused && kind != Tools:
			skipped = append(skipped, err)
		default:
			return old, nil, err
		}
		*kind.Of(&old) = elements
	}
	return old, skipped, nil
}

// list reads all pages of one list and returns each element as the server wrote it.
func (l *link) list(ctx context.Context, kind Kind) ([][]byte, error) {
	var elements [][]byte
	var params []byte
	for range maxPages {
		page, err := l.call(ctx, kind.Method(), params)
		var refusal *jsonrpc.Error
		if errors.As(err, &refusal) && refusal.Code == jsonrpc.CodeMethodNotFound {
			return nil, nil // it declared them and has none
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind.Method(), err)
		}
		list, _ := jsonrpc.Lookup(page.Raw, page.Result, kind.Member())
		for _, element := range jsonrpc.Elements(page.Raw, list) {
			elements = append(elements, element.Of(page.Raw))
		}
		cursor, ok := jsonrpc.Lookup(page.Raw, page.Result, "nextCursor")
		next := cursor.Of(page.Raw)
		if !ok || next[0] != '"' || string(next) == `""` {
			return elements, nil
		}
		params = append(append([]byte(`{"cursor":`), next...), '}')
	}
	return nil, fmt.Errorf("%s: the server sends more than %d pages", kind.Method(), maxPages)
}

// sound leaves out elements that are not proper JSON: in the one list for all servers
// they would make clients refuse those of the others as well.
func (u *Upstream) sound(lists Lists) Lists {
	for _, kind := range AllKinds() {
		list := kind.Of(&lists)
		kept := make([][]byte, 0, len(*list))
		for _, element := range *list {
			if json.Valid(element) && utf8.Valid(element) {
				kept = append(kept, element)
			}
		}
		if broken := len(*list) - len(kept); broken > 0 {
			u.deps.Log.Warn("a server lists what is not valid JSON; it is left out", "server", u.name, "list", kind.Member(), "elements", broken)
		}
		*list = kept
	}
	return lists
}
