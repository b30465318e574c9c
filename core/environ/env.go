package environ

import (
	"slices"
	"strings"
)

// Env is an environment: variables in a fixed order, each once. It is
// immutable; the zero Env is empty.
type Env struct{ pairs []string }

// New makes an Env of "K=V" pairs as os.Environ returns them. Of a variable
// given twice the last value counts; what is no pair is dropped.
func New(base []string) Env { return Env{}.With(base) }

// With returns e with pairs laid over it: their values win.
func (e Env) With(pairs []string) Env {
	out := slices.Clone(e.pairs)
	index := make(map[string]int, len(out)+len(pairs))
	for i, pair := range out {
		key, _, _ := splitPair(pair)
		index[foldKey(key)] = i
	}
	for _, pair := range pairs {
		key, _, ok := splitPair(pair)
		if !ok {
			continue
		}
		if at, twice := index[foldKey(key)]; twice {
			out[at] = pair
			continue
		}
		index[foldKey(key)] = len(out)
		out = append(out, pair)
	}
	return Env{out}
}

// Lookup returns the value of a variable and whether there is one.
func (e Env) Lookup(key string) (string, bool) {
	for _, pair := range e.pairs {
		if k, value, _ := splitPair(pair); foldKey(k) == foldKey(key) {
			return value, true
		}
	}
	return "", false
}

// Environ returns the variables as "K=V" pairs, in a slice of the caller's own.
func (e Env) Environ() []string { return slices.Clone(e.pairs) }

// splitPair cuts "K=V". A key can begin with "=": Windows keeps the current
// folder of each drive in such variables.
func splitPair(pair string) (key, value string, ok bool) {
	at := strings.Index(pair[min(1, len(pair)):], "=")
	if at < 0 {
		return "", "", false
	}
	return pair[:at+1], pair[at+2:], true
}
