package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// node is one value of a document and the path by which a person finds it.
type node struct {
	doc   *document
	path  string
	value *hujson.Value
}

// member is one key of an object with its value.
type member struct {
	key   string
	keyAt int // offset of the key
	node
}

func (n node) kind() hujson.Kind { return n.value.Value.Kind() }

// null reports whether the value is null, which everywhere means "not given".
func (n node) null() bool { return n.kind() == 'n' }

// issue is a finding about the value.
func (n node) issue(format string, args ...any) Issue {
	return n.doc.issueAt(n.value.StartOffset, n.path, fmt.Sprintf(format, args...))
}

// keyIssue is a finding about the key.
func (m member) keyIssue(format string, args ...any) Issue {
	return m.doc.issueAt(m.keyAt, m.path, fmt.Sprintf(format, args...))
}

// unknown warns that nobody reads the key.
func (m member) unknown() { m.doc.warn(m.keyIssue("unknown key, ignored")) }

// mismatch is the finding that the value is of another kind than wanted.
func (n node) mismatch(want string) *Issue {
	bad := n.issue("must be %s, but is %s", want, kindWords(n.kind()))
	return &bad
}

func kindWords(k hujson.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "an array"
	default:
		return "an object"
	}
}

// members are the keys of an object in their order, none for other kinds. Of a
// key that is there twice the last value is taken, at the first one's place,
// and a warning is left: call it once for each object.
func (n node) members() []member {
	object, ok := n.value.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	var list []member
	index := map[string]int{}
	for i := range object.Members {
		raw := &object.Members[i]
		name, ok := raw.Name.Value.(hujson.Literal)
		if !ok {
			continue // the parser lets only strings be keys
		}
		key := name.String()
		m := member{
			key:   key,
			keyAt: raw.Name.StartOffset,
			node:  node{doc: n.doc, path: joinPath(n.path, key), value: &raw.Value},
		}
		if first, twice := index[key]; twice {
			n.doc.warn(m.keyIssue("this key is given twice, the last one counts"))
			list[first] = m
			continue
		}
		index[key] = len(list)
		list = append(list, m)
	}
	return list
}

// elements are the values of an array, none for other kinds.
func (n node) elements() []node {
	array, ok := n.value.Value.(*hujson.Array)
	if !ok {
		return nil
	}
	list := make([]node, len(array.Elements))
	for i := range array.Elements {
		list[i] = node{doc: n.doc, path: fmt.Sprintf("%s[%d]", n.path, i), value: &array.Elements[i]}
	}
	return list
}

// joinPath appends a key, quoted where it would not read as one word.
func joinPath(path, key string) string {
	plain := key != "" && strings.IndexFunc(key, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
			r != '_' && r != '-' && r != '$'
	}) < 0
	switch {
	case !plain:
		return fmt.Sprintf("%s[%q]", path, key)
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

// The readers below take a value of one kind. The finding is nil when it fits.

func asString(n node) (string, *Issue) {
	if n.kind() != '"' {
		return "", n.mismatch("a string")
	}
	return n.literal().String(), nil
}

// asScalar also takes numbers and booleans, as they are written in the file.
func asScalar(n node) (string, *Issue) {
	switch n.kind() {
	case '"', '0', 't', 'f':
		return n.literal().String(), nil
	default:
		return "", n.mismatch("a string")
	}
}

func asBool(n node) (bool, *Issue) {
	if k := n.kind(); k != 't' && k != 'f' {
		return false, n.mismatch("true or false")
	}
	return n.literal().Bool(), nil
}

// asNumber reads a number from low to high.
func asNumber(low, high float64) func(node) (float64, *Issue) {
	want := fmt.Sprintf("a number from %v to %v", low, high)
	return func(n node) (float64, *Issue) {
		if n.kind() != '0' {
			return 0, n.mismatch(want)
		}
		// ParseFloat fails for a number too large for a float64: out of range.
		v, err := strconv.ParseFloat(string(n.literal()), 64)
		if err != nil || v < low || v > high {
			bad := n.issue("must be %s", want)
			return 0, &bad
		}
		return v, nil
	}
}

// asInt reads a whole number from low to high.
func asInt(low, high int) func(node) (int, *Issue) {
	number := asNumber(float64(low), float64(high))
	return func(n node) (int, *Issue) {
		v, bad := number(n)
		if bad == nil && v != math.Trunc(v) {
			whole := n.issue("must be a whole number")
			bad = &whole
		}
		if bad != nil {
			return 0, bad
		}
		return int(v), nil
	}
}

// maxMillis is a year: longer is a slip, and far from overflowing a Duration.
const maxMillis = 365 * 24 * 60 * 60 * 1000

// asMillis reads a time in milliseconds, at least low.
func asMillis(low int) func(node) (time.Duration, *Issue) {
	whole := asInt(low, maxMillis)
	return func(n node) (time.Duration, *Issue) {
		v, bad := whole(n)
		if bad != nil {
			bad.Message = fmt.Sprintf("must be whole milliseconds, %d or more", low)
		}
		return time.Duration(v) * time.Millisecond, bad
	}
}

// asSeconds reads a time in seconds, fractions allowed.
func asSeconds(n node) (time.Duration, *Issue) {
	v, bad := asNumber(0, maxMillis/1000)(n)
	if bad != nil {
		bad.Message = "must be seconds, 0 or more"
	}
	return time.Duration(v * float64(time.Second)), bad
}

// asOneOf reads one of the given words.
func asOneOf(words ...string) func(node) (string, *Issue) {
	return func(n node) (string, *Issue) {
		v, bad := asString(n)
		if bad == nil && !slices.Contains(words, v) {
			other := n.issue("must be one of %s", strings.Join(words, ", "))
			bad = &other
		}
		return v, bad
	}
}

// literal is the value as written; only for strings, numbers, booleans, null.
func (n node) literal() hujson.Literal {
	l, _ := n.value.Value.(hujson.Literal)
	return l
}

// reporter takes a finding about a setting; held is the value that stays, nil
// where it is not worth showing.
type reporter func(bad Issue, held any)

// read sets *into from n by get. null leaves it alone, and so does a value that
// does not fit, which is reported.
func read[T any](n node, get func(node) (T, *Issue), into *T, report reporter) {
	if n.null() {
		return
	}
	v, bad := get(n)
	if bad != nil {
		report(*bad, *into)
		return
	}
	*into = v
}

// heldWords words a value for a finding that says which value stays in force.
func heldWords(v any) string {
	switch v := v.(type) {
	case nil:
		return "the default"
	case time.Duration:
		return fmt.Sprintf("%d ms", v.Milliseconds())
	case string:
		return fmt.Sprintf("%q", v)
	default:
		return fmt.Sprint(v)
	}
}
