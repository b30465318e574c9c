package upstream

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"mcp-funnel/core/jsonrpc"
)

// newerError says that a server speaks only versions of the protocol that have no
// handshake (MCP 2026-07-28 and later).
type newerError struct {
	// versions are those it named; none where it did not say.
	versions []string
	// cause is how it refused the handshake.
	cause error
}

func (e *newerError) Error() string {
	if len(e.versions) == 0 {
		return "the server does not know the handshake: it probably speaks only MCP " + mcp.LATEST_PROTOCOL_VERSION +
			" or later, which the funnel does not yet"
	}
	return "the server speaks only MCP " + strings.Join(e.versions, ", ") + ", which the funnel does not yet"
}

func (e *newerError) Unwrap() error { return e.cause }

// newerOnly finds out whether answer, which refuses initialize by err, means that the
// server speaks only versions without that. Otherwise it returns err.
func newerOnly(answer jsonrpc.Message, err error) error {
	refused, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || !answer.Error.Present() {
		return err
	}
	named := supportedVersions(answer)
	if named == nil {
		named = versionsIn([]byte(refused.Message))
	}
	if slices.ContainsFunc(named, speaks) {
		return err // it would take an older version: something else is wrong
	}
	named = slices.DeleteFunc(named, func(v string) bool { return !newer(v) })
	switch refused.Code {
	case mcp.UNSUPPORTED_PROTOCOL_VERSION, mcp.HEADER_MISMATCH, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, // codes of 2026-07-28
		mcp.METHOD_NOT_FOUND: // initialize is what every other server knows
		return &newerError{versions: named, cause: err}
	}
	if len(named) > 0 {
		return &newerError{versions: named, cause: err}
	}
	return err
}

// newerFromText is [newerOnly] for the body of an HTTP status that may be of any form;
// nil when it says nothing about versions.
func newerFromText(body []byte) error {
	body = body[:min(len(body), excerptRead)]
	if m, err := jsonrpc.Parse(onOneLine(bytes.Clone(body))); err == nil && m.Error.Present() {
		only, ok := errors.AsType[*newerError](newerOnly(m, errorOf(m)))
		if !ok {
			return nil
		}
		said, _ := errors.AsType[*jsonrpc.Error](only)
		if len(only.versions) == 0 && said.Code == mcp.METHOD_NOT_FOUND {
			return nil // it does not even name the request: anything may have sent this
		}
		return only
	}
	if !bytes.Contains(bytes.ToLower(body), []byte("version")) {
		return nil
	}
	named := versionsIn(body)
	if len(named) == 0 || slices.ContainsFunc(named, speaks) {
		return nil
	}
	return &newerError{versions: named}
}

// versionPattern matches the versions of the protocol, which are dates.
var versionPattern = regexp.MustCompile(`\b20\d\d-[01]\d-[0-3]\d\b`)

// supportedVersions are those that an error lists as the server's; nil without a list.
func supportedVersions(answer jsonrpc.Message) []string {
	span, ok := jsonrpc.Lookup(answer.Raw, answer.Error, "data", "supported")
	if !ok {
		return nil
	}
	versions := []string{}
	for _, element := range jsonrpc.Elements(answer.Raw, span) {
		if version, ok := jsonrpc.Unquote(element.Of(answer.Raw)); ok && version == versionPattern.FindString(version) {
			versions = append(versions, version)
		}
	}
	return versions
}

// versionsIn are the versions in a text for people, but for the one that we asked for,
// which it may repeat.
func versionsIn(text []byte) []string {
	var versions []string
	for _, found := range versionPattern.FindAll(text, -1) {
		version := string(found)
		if version != mcp.LATEST_LEGACY_PROTOCOL_VERSION && !slices.Contains(versions, version) {
			versions = append(versions, version)
		}
	}
	return versions
}

// newer reports whether version is of the protocol without a handshake.
func newer(version string) bool { return version > mcp.LATEST_LEGACY_PROTOCOL_VERSION }
