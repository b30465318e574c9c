package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"unicode/utf16"
)

// Limits of the whole name `mcp__<client's name for the funnel>__<tool>`.
const (
	// ClaudeCodeLimit: Claude Code drops tools with longer names silently.
	ClaudeCodeLimit = 128
	// CautiousLimit is kept for clients we do not know.
	CautiousLimit = 64
)

// Budget is how long a tool's name may be for a client.
//
// client is what the client calls itself in initialize, registered the name under
// which it has the funnel ("" is taken as "funnel"), and configured the user's own
// limit of the tool's name (names.maxLength), 0 for none.
func Budget(client, registered string, configured int) int {
	if configured > 0 {
		return max(configured, shortest)
	}
	limit := CautiousLimit
	if client == "claude-code" {
		limit = ClaudeCodeLimit
	}
	if registered == "" {
		registered = "funnel"
	}
	// Clients count in UTF-16, as JavaScript does.
	units := len(utf16.Encode([]rune(registered)))
	return max(limit-len("mcp__")-units-len("__"), shortest)
}

const (
	// hashLength is how many hex digits tell altered names apart.
	hashLength = 8
	// shortest is a name that has room for a hash and a little more.
	shortest = hashLength + 8
)

// naming is what the names of one tool are made of.
type naming struct {
	// full is <prefix>__<tool>; clean the same in [A-Za-z0-9_-], byte by byte where
	// it was so already.
	full, clean string
	// hash tells full from all others that look like it.
	hash string
	// altered: full cannot be the name, whatever the budget.
	altered bool
}

func newNaming(prefix, tool string) naming {
	n := naming{full: tool}
	if prefix != "" {
		n.full = prefix + "__" + tool
	}
	n.clean = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, n.full)
	// Where the prefix ends must be plain: "a__b" + "c" is not "a" + "b__c", and
	// "a_" + "b" is not "a" + "_b". Its length is hashed for the same reason.
	n.altered = n.clean != n.full || strings.Contains(prefix+"_", "__")
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s", len(prefix), n.full))
	n.hash = hex.EncodeToString(sum[:])[:hashLength]
	return n
}

// within is the name that clients with that budget see. It consists of
// [A-Za-z0-9_-] and is at most budget long; one that had to be altered for that, or
// whose prefix has no plain end, ends with a hash of the full original, so that the
// same server and tool have the same name in every run and no two share one.
func (n naming) within(budget int) string {
	if !n.altered && len(n.full) <= budget {
		return n.full
	}
	return n.clean[:min(len(n.clean), budget-hashLength-1)] + "_" + n.hash
}

// matches reports whether pattern means the tool, which some client knows as
// exposed. A pattern fits that name, the name as it would be without a limit of
// length, or the full original; and one without * may be the name as clients with
// another budget see it. Else a tool hidden from one client were open to the next.
func (n naming) matches(pattern, exposed string) bool {
	p := Pattern(pattern)
	return p.Matches(exposed) || p.Matches(n.full) || p.Matches(n.within(math.MaxInt)) ||
		len(pattern) >= shortest && n.within(len(pattern)) == pattern
}

// Pattern is an anchored pattern on exposed names in which only * is special: it
// stands for any run of characters.
type Pattern string

// Matches reports whether name fits the pattern.
func (p Pattern) Matches(name string) bool {
	parts := strings.Split(string(p), "*")
	if len(parts) == 1 {
		return name == parts[0]
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name = name[at+len(part):]
	}
	return true
}
