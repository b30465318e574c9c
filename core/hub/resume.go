package hub

import (
	"encoding/json"

	"mcp-funnel/core/jsonrpc"
)

// resume is what of a session outlives its attachment to one app. The bridge keeps it,
// without understanding it, and gives it to the next app.
type resume struct {
	// Tools, Prompts and Resources are the hashes of the lists that the client has, or
	// was told to fetch.
	Tools     string `json:"tools,omitempty"`
	Prompts   string `json:"prompts,omitempty"`
	Resources string `json:"resources,omitempty"`
	// Level is the client's log level.
	Level string `json:"level,omitempty"`
	// Subscriptions are the URIs of the resources it wants to know of.
	Subscriptions []string `json:"subscriptions,omitempty"`
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
	s.tellResumeLocked()
}

func (s *session) tellResumeLocked() {
	text := s.resumed.String()
	if text == s.told && s.greeted {
		return
	}
	s.told = text
	s.send([]byte(`{"mcp-funnel":1,"resume":` + string(jsonrpc.Quote(text)) + `}`))
}
