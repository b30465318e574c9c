package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
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
	return max(limit-len("mcp__")-utf8.RuneCountInString(registered)-len("__"), shortest)
}

const (
	// hashLength is how many hex digits tell altered names apart.
	hashLength = 8
	// shortest is a name that has room for a hash and a little more.
	shortest = hashLength + 8
)

// exposedName makes the name clients see. It consists of [A-Za-z0-9_-] and is at
// most budget long; one that had to be altered for that, or whose prefix contains
// the separator, ends with a hash of the full original, so that the same server
// and tool have the same name in every run and no two share one.
func exposedName(prefix, tool string, budget int) string {
	full := tool
	if prefix != "" {
		full = prefix + "__" + tool
	}
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, full)
	if clean == full && full != "" && len(full) <= budget && !strings.Contains(prefix, "__") {
		return full
	}
	// The length of the prefix is hashed too: "a" + "b__c" is not "a__b" + "c".
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s", len(prefix), full))
	hash := hex.EncodeToString(sum[:])[:hashLength]
	return clean[:min(len(clean), budget-hashLength-1)] + "_" + hash
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

// anyMatches reports whether one of the patterns fits name.
func anyMatches(patterns []string, name string) bool {
	for _, p := range patterns {
		if Pattern(p).Matches(name) {
			return true
		}
	}
	return false
}
