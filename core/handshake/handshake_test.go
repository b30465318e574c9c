package handshake

import (
	"encoding/json"
	"testing"

	"mcp-funnel/core/jsonrpc"
)

func initialize(t *testing.T, params string) jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + params + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestVersionIsTheClientsOwnWhereItIsKnown(t *testing.T) {
	for params, want := range map[string]string{
		`{"protocolVersion":"2024-11-05"}`: "2024-11-05", `{"protocolVersion":"2025-06-18"}`: "2025-06-18",
		`{"protocolVersion":"2099-01-01"}`: "2025-11-25", `{}`: "2025-11-25", `{"protocolVersion":7}`: "2025-11-25", `null`: "2025-11-25",
	} {
		if got := Version(initialize(t, params)); got != want {
			t.Errorf("%s: %s, want %s", params, got, want)
		}
	}
}

func TestResult(t *testing.T) {
	var got struct {
		Capabilities map[string]any
		ServerInfo   map[string]string
		Instructions string
	}
	text := Result(initialize(t, `{}`), `1"2`, "line\nline \"two\"")
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if len(got.Capabilities) != 5 || got.ServerInfo["version"] != `1"2` || got.Instructions != "line\nline \"two\"" {
		t.Errorf("%s", text)
	}
}
