package status

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

func TestEveryState(t *testing.T) {
	tests := map[State]struct {
		words    string
		down     bool
		severity int
	}{
		"disabled":     {"disabled", false, 0},
		"idle":         {"idle", false, 1},
		"connected":    {"connected", false, 2},
		"connecting":   {"connecting", false, 3},
		"reconnecting": {"reconnecting", true, 4},
		"needs_auth":   {"needs a log-in", true, 5},
		"slow_probe":   {"slow probe", true, 6},
		"invalid":      {"wrong configuration", true, 7},
	}
	for _, state := range States() {
		want, ok := tests[state]
		if !ok {
			t.Errorf("state %s is not tested", state)
			continue
		}
		delete(tests, state)
		if state.Words() != want.words || state.Down() != want.down || state.Severity() != want.severity {
			t.Errorf("%s: %q, down %v, severity %d; want %+v", state, state.Words(), state.Down(), state.Severity(), want)
		}
	}
	if len(tests) > 0 {
		t.Errorf("States() lacks %v", tests)
	}
	if declared, listed := declaredStates(t), States(); len(declared) != len(listed) ||
		slices.ContainsFunc(declared, func(s State) bool { return !slices.Contains(listed, s) }) {
		t.Errorf("declared are %v, States() has %v", declared, listed)
	}
	strange := State("strange")
	if strange.Words() != "strange" || strange.Down() || strange.Severity() != -1 {
		t.Errorf("a state of a later version: %q, down %v, severity %d", strange.Words(), strange.Down(), strange.Severity())
	}
}

// declaredStates reads the constants from the source.
func declaredStates(t *testing.T) (states []State) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "state.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "State" {
			text, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			states = append(states, State(text))
		}
		return true
	})
	return states
}

func TestStatesIsACopy(t *testing.T) {
	States()[0] = "broken"
	if States()[0] != Disabled {
		t.Error("a caller changed the states")
	}
}

func TestWorst(t *testing.T) {
	tests := []struct {
		states []State
		want   State
	}{
		{nil, Disabled},
		{[]State{Disabled, Disabled}, Disabled},
		{[]State{Disabled, Idle}, Idle},
		{[]State{Connected, Idle, Disabled}, Connected},
		{[]State{Connected, Connecting, Connected}, Connecting},
		{[]State{Reconnecting, Connecting}, Reconnecting},
		{[]State{Reconnecting, NeedsAuth, Connected}, NeedsAuth},
		{[]State{SlowProbe, NeedsAuth}, SlowProbe},
		{[]State{SlowProbe, Invalid, Connected}, Invalid},
		{[]State{"strange", Disabled}, Disabled},
		{[]State{"strange", Connected}, Connected},
	}
	for _, test := range tests {
		var servers []Server
		for _, state := range test.states {
			servers = append(servers, Server{State: state})
		}
		if got := Worst(servers); got != test.want {
			t.Errorf("%v: %s, want %s", test.states, got, test.want)
		}
	}
}
