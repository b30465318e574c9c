package hub

import (
	"context"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/catalog"
	"mcp-funnel/core/jsonrpc"
)

// News gives a server's notification that belongs to no request to the clients that
// want it.
func (h *Hub) News(server string, m jsonrpc.Message) { h.newsFor(h.all(), server, m) }

// NewsFor is [Hub.News] for the sessions with these ids only.
func (h *Hub) NewsFor(server string, sessions []string, m jsonrpc.Message) {
	h.newsFor(h.among(sessions), server, m)
}

// among are the sessions with these ids.
func (h *Hub) among(ids []string) []*session {
	return slices.DeleteFunc(h.all(), func(s *session) bool { return !slices.Contains(ids, s.id) })
}

func (h *Hub) newsFor(sessions []*session, server string, m jsonrpc.Message) {
	for _, s := range sessions {
		if m.MethodName() == string(mcp.MethodNotificationResourceUpdated) {
			s.updated(server, m)
			continue
		}
		if s.wants(m) {
			s.send(slices.Clone(m.Raw))
		}
	}
}

// wants reports whether the client is to get a notification: after its handshake; of a
// log, what is severe enough; of an elicitation, its own.
func (s *session) wants(m jsonrpc.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.MethodName() {
	case string(mcp.MethodNotificationMessage):
		level, _ := jsonrpc.LookupString(m.Raw, m.Params, "level")
		return s.greeted && severity(level) >= severity(s.level)
	case "notifications/elicitation/complete":
		id, _ := jsonrpc.LookupString(m.Raw, m.Params, "elicitationId")
		return s.elicitations[id]
	}
	return s.greeted
}

// updated tells of a changed resource, under the URI by which the client subscribed.
// A server may name a part of that.
func (s *session) updated(server string, m jsonrpc.Message) {
	at, _ := jsonrpc.Lookup(m.Raw, m.Params, "uri")
	uri, _ := jsonrpc.Unquote(at.Of(m.Raw))
	s.mu.Lock()
	defer s.mu.Unlock()
	for exposed, route := range s.subscriptions {
		part, within := strings.CutPrefix(uri, route.Name)
		if route.Server != server || !within || part != "" && !strings.HasSuffix(route.Name, "/") && part[0] != '/' {
			continue
		}
		if exposed == route.Name {
			s.send(slices.Clone(m.Raw))
		} else {
			s.send(jsonrpc.Splice(m.Raw, jsonrpc.Edit{Span: at, With: jsonrpc.Quote(exposed + part)}))
		}
	}
}

// severity ranks the levels of RFC 5424; an unknown one, or none, ranks lowest.
func severity(level string) int {
	return slices.Index([]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}, level)
}

// setLevel takes the client's wish, and asks the servers for what the most curious
// client wants.
func (s *session) setLevel(m jsonrpc.Message) {
	level, _ := jsonrpc.LookupString(m.Raw, m.Params, "level")
	if severity(level) < 0 {
		s.refuse(m.ID.Of(m.Raw), jsonrpc.CodeInvalidParams, "logging/setLevel without a level that is known")
		return
	}
	s.mu.Lock()
	s.level, s.resumed.Level = level, level
	s.mu.Unlock()
	s.hub.adjustLevel()
	s.send(jsonrpc.NewResult(m.ID.Of(m.Raw), []byte("{}")))
	s.tellResume()
}

// adjustLevel asks all servers for what the most curious client wants.
func (h *Hub) adjustLevel() {
	level := levelOf(h.all())
	for _, server := range h.deps.Servers() {
		server.SetLogLevel(level)
	}
}

// levelOf is the least severe one that a client asked for, "" when none did.
func levelOf(sessions []*session) string {
	least := ""
	for _, s := range sessions {
		s.mu.Lock()
		level := s.level
		s.mu.Unlock()
		if level != "" && (least == "" || severity(level) < severity(least)) {
			least = level
		}
	}
	return least
}

// Wanted says what a server's new connection needs: the resources that clients
// subscribed to, by its own URIs, and the level of its log.
func (h *Hub) Wanted(server string) (subscriptions []string, level string) {
	return wanted(h.all(), server)
}

// WantedBy is [Hub.Wanted] for the sessions with these ids only.
func (h *Hub) WantedBy(server string, sessions []string) (subscriptions []string, level string) {
	return wanted(h.among(sessions), server)
}

func wanted(sessions []*session, server string) (subscriptions []string, level string) {
	for _, s := range sessions {
		s.mu.Lock()
		for _, route := range s.subscriptions {
			if route.Server == server && !slices.Contains(subscriptions, route.Name) {
				subscriptions = append(subscriptions, route.Name)
			}
		}
		s.mu.Unlock()
	}
	return subscriptions, levelOf(sessions)
}

// subscribe sends a subscription on its way, and notes it when the server agreed.
func (s *session) subscribe(ctx context.Context, m jsonrpc.Message) {
	uri, _ := jsonrpc.LookupString(m.Raw, m.Params, "uri")
	s.toResource(ctx, m, func(route catalog.Route) func(bool) {
		return func(ok bool) { // s.mu is held
			if ok {
				s.subscriptions[uri] = route
				s.resumed.Subscriptions = subscribed(s.subscriptions)
				s.tellResumeLocked()
			}
		}
	})
}

// unsubscribe ends a subscription. The server hears of it when no other client has it.
func (s *session) unsubscribe(ctx context.Context, m jsonrpc.Message) {
	uri, _ := jsonrpc.LookupString(m.Raw, m.Params, "uri")
	s.mu.Lock()
	route, known := s.subscriptions[uri]
	delete(s.subscriptions, uri)
	s.resumed.Subscriptions = subscribed(s.subscriptions)
	s.mu.Unlock()
	s.tellResume()
	server, ok := s.hub.deps.Lookup(route.Server)
	if known && ok && s.hub.subscribedTo(route, server, s) {
		s.send(jsonrpc.NewResult(m.ID.Of(m.Raw), []byte("{}")))
		return
	}
	s.toResource(ctx, m, nil)
}

// subscribed are the URIs, in a fixed order.
func subscribed(subscriptions map[string]catalog.Route) []string {
	uris := make([]string, 0, len(subscriptions))
	for uri := range subscriptions {
		uris = append(uris, uri)
	}
	slices.Sort(uris)
	return uris
}

// subscribedTo reports whether a client that shares its connection with that of except
// is subscribed to the resource.
func (h *Hub) subscribedTo(route catalog.Route, server Server, except *session) bool {
	return slices.ContainsFunc(h.all(), func(s *session) bool {
		if s == except || !server.Shares(s.id, except.id) {
			return false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, other := range s.subscriptions {
			if other.Server == route.Server && other.Name == route.Name {
				return true
			}
		}
		return false
	})
}

// restore brings a session that was attached to another app to where it was.
func (s *session) restore() {
	view := s.view()
	s.mu.Lock()
	s.level = s.resumed.Level
	var routes []catalog.Route
	for _, uri := range s.resumed.Subscriptions {
		if route, ok := view.Resource(uri); ok {
			s.subscriptions[uri] = route
			routes = append(routes, route)
		}
	}
	level := s.level
	s.mu.Unlock()
	if level != "" {
		s.hub.adjustLevel()
	}
	for _, route := range routes {
		if server, ok := s.hub.deps.Lookup(route.Server); ok {
			server.Subscribe(s, route.Name)
		}
	}
}

// unsubscribeAll ends the wishes of a client that went away.
func (s *session) unsubscribeAll() {
	s.mu.Lock()
	subscriptions, level := s.subscriptions, s.level
	s.subscriptions = make(map[string]catalog.Route)
	s.level = ""
	s.mu.Unlock()
	if level != "" {
		s.hub.adjustLevel()
	}
	for _, route := range subscriptions {
		if server, ok := s.hub.deps.Lookup(route.Server); ok && !s.hub.subscribedTo(route, server, s) {
			server.Unsubscribe(s, route.Name)
		}
	}
}
