package hub

import (
	"encoding/json"

	"mcp-funnel/core/jsonrpc"
)

// resume is what of a session outlives its attachment to one app. The bridge keeps it,
// without understanding it, and gives it to the next app.
type resume struct {
	// Tools is the hash of the list that the client has, or was told to fetch.
	Tools string `json:"tools,omitempty"`
}

// parseResume reads what [resume.String] wrote, perhaps in another version: what is
// not understood is as if it were not there.
func parseResume(text string) resume {
	var r resume
	if json.Unmarshal([]byte(text), &r) != nil {
		return resume{}
	}
	return r
}

func (r resume) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		return "" // plain data always encodes
	}
	return string(text)
}

// tellResume gives the bridge what changed of it.
func (s *session) tellResume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.resumed.String()
	if text == s.told && s.greeted {
		return
	}
	s.told = text
	s.send([]byte(`{"mcp-funnel":1,"resume":` + string(jsonrpc.Quote(text)) + `}`))
}
