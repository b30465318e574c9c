package endpoint

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

// Headers of the transport.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerLastID  = "Last-Event-Id"
)

// Media types.
const (
	typeJSON   = "application/json"
	typeStream = "text/event-stream"
)

// accepts reports whether the Accept headers admit a media type; without any they admit
// all (RFC 9110, 12.5.1).
func accepts(values []string, media string) bool {
	if len(values) == 0 {
		return true
	}
	group, _, _ := strings.Cut(media, "/")
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			accepted, params, _ := strings.Cut(part, ";")
			accepted = strings.ToLower(strings.TrimSpace(accepted))
			if (accepted == media || accepted == group+"/*" || accepted == "*/*") && !refused(params) {
				return true
			}
		}
	}
	return false
}

// refused reports whether the parameters of a media range give it the weight 0.
func refused(params string) bool {
	for param := range strings.SplitSeq(params, ";") {
		if weight, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(param)), "q="); ok {
			q, err := strconv.ParseFloat(weight, 64)
			return err == nil && q == 0
		}
	}
	return false
}

// isJSON reports whether a body is declared as JSON.
func isJSON(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && media == typeJSON
}

// assumedVersion is that of a client that names none (MCP transports, "Protocol Version
// Header").
const assumedVersion = "2025-03-26"

// primingVersion is the first whose clients know events without data.
const primingVersion = "2025-11-25"

// protocolVersion is the one that the request names or is assumed to mean; false when
// it is not one with sessions that we know.
func protocolVersion(h http.Header) (string, bool) {
	version := h.Get(headerVersion)
	if version == "" {
		return assumedVersion, true
	}
	return version, slices.Contains(mcp.LegacyProtocolVersions(), version)
}

// eventID names an event for clients, which give it back to go on after it. It is
// unique in its session.
type eventID struct {
	// listening tells streams of GET from those of POST.
	listening bool
	// stream is the number of the stream, event that of the event in it; 0 is before
	// the first one.
	stream, event int
}

func (id eventID) String() string {
	kind := "post"
	if id.listening {
		kind = "get"
	}
	return fmt.Sprintf("%s-%d-%d", kind, id.stream, id.event)
}

// parseEventID reads what [eventID.String] wrote.
func parseEventID(text string) (eventID, bool) {
	parts := strings.Split(text, "-")
	if len(parts) != 3 {
		return eventID{}, false
	}
	stream, errStream := strconv.Atoi(parts[1])
	event, errEvent := strconv.Atoi(parts[2])
	id := eventID{listening: parts[0] == "get", stream: stream, event: event}
	return id, errStream == nil && errEvent == nil && stream > 0 && event >= 0 && id.String() == text
}
