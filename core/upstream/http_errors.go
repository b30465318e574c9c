package upstream

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcp-funnel/core/jsonrpc"
)

// SessionLostError says that an HTTP server does not know our session any more,
// most often because it was restarted. It looked at nothing but the session, so
// the request that met this did not run.
type SessionLostError struct {
	// Status is the HTTP status by which it said so.
	Status int
	// Hint is what it wrote, for a person.
	Hint string
}

func (e *SessionLostError) Error() string {
	text := fmt.Sprintf("the server forgot the session (HTTP status %d); it was probably restarted", e.Status)
	if e.Hint != "" {
		text += "; it says: " + e.Hint
	}
	return text
}

// statusError says that a server answered an HTTP request with a status that is
// no success.
type statusError struct {
	status int
	text   string
	// retryAfter is how long the server asks to be left alone; 0 when it does not.
	retryAfter time.Duration
}

func (e *statusError) Error() string { return e.text }

// exchangeError is what went wrong in talking to a server. Its text is masked,
// which that of its cause need not be.
type exchangeError struct {
	text  string
	cause error
	// broken: no HTTP answer came, so that the next request would fail as well.
	broken bool
	// foreign: an answer came whole, and it is none of Streamable HTTP.
	foreign bool
}

func (e *exchangeError) Error() string { return e.text }

func (e *exchangeError) Unwrap() error { return e.cause }

var (
	// errWithdrawn ends the stream of a request that its caller cancelled.
	errWithdrawn = errors.New("the request was cancelled")
	// errAnswered ends a stream that goes on for no reason.
	errAnswered = errors.New("the request was answered")
	// errNoAck: a notification was not accepted.
	errNoAck = fmt.Errorf("the server did not accept it within %s", ackTimeout)
)

// endsConnection reports whether nothing can be sent after err.
func endsConnection(err error) bool {
	var lost *SessionLostError
	var failed *exchangeError
	return errors.As(err, &lost) || errors.As(err, &failed) && failed.broken
}

// unsent reports whether err means that the server did not look at the request.
func unsent(err error) bool {
	_, forgot := errors.AsType[*SessionLostError](err)
	return forgot || dialFailed(err)
}

// dialFailed reports whether err is that no connection came about.
func dialFailed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}

// failure is the error of one request; the text begins with where it went.
func (b *httpBase) failure(cause error, format string, args ...any) error {
	return &exchangeError{text: b.mask(b.peer + " " + fmt.Sprintf(format, args...)), cause: cause}
}

// foreign is the error of a request whose answer is none of Streamable HTTP.
func (b *httpBase) foreign(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if !b.greeted() && b.otherKind != "" {
		text += "; " + b.otherKind
	}
	return &exchangeError{text: b.mask(b.peer + " " + text), foreign: true}
}

// broken is the error of a request that got no HTTP answer.
func (b *httpBase) broken(err error) error {
	// A url.Error shows the whole URL.
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	text := fmt.Sprintf("talking to %s: %v", b.peer, err)
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		text += "; if its certificate is of an authority of your own, name the PEM file of that in caFile in its config"
	case dialFailed(err):
		text = fmt.Sprintf("%s cannot be reached: %v", b.peer, err)
	case errors.Is(err, io.EOF):
		text = b.peer + " closed the connection without an answer"
	}
	return &exchangeError{text: b.mask(text), cause: err, broken: true}
}

// cutShort is the error of an answer that broke off.
func (b *httpBase) cutShort(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, ok := errors.AsType[*jsonrpc.TooLongError](err); ok {
		return b.failure(err, "sends too much: %v", err)
	}
	return b.failure(err, "broke off its answer: %v", err)
}

// shortestMasked: a shorter session id is no secret, and would be found anywhere.
const shortestMasked = 8

// querySecrets are the values in a query, and the query itself, longest first.
func querySecrets(query string) []string {
	values, _ := url.ParseQuery(query) // what is wrong with it is left out
	secrets := []string{query}
	for _, list := range values {
		secrets = append(secrets, list...)
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	return secrets
}

// mask takes secrets out of text, the session's id among them.
func (b *httpBase) mask(text string) string {
	b.mu.Lock()
	session, query := b.session, ""
	if _, after, found := strings.Cut(b.postTo, "?"); found {
		query = after
	}
	b.mu.Unlock()
	for _, secret := range append(querySecrets(query), session) {
		if len(secret) >= shortestMasked {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return b.endpoint.Mask(text)
}

// Bounds of what is shown of a server's words. Masking comes before cutting, so
// that no half of a secret is left.
const (
	excerptRead  = 4 << 10
	excerptRunes = 200
)

// excerpt is the beginning of a body, on one line.
func (b *httpBase) excerpt(body []byte) string {
	text := b.mask(string(body[:min(len(body), excerptRead)]))
	text = printable(strings.Join(strings.Fields(text), " "))
	if runes := []rune(text); len(runes) > excerptRunes {
		text = string(runes[:excerptRunes]) + "…"
	}
	return text
}

func authStatus(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// busyStatus reports whether a server with that status may say when to come again.
func busyStatus(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// codeSessionNotFound is the code that MCP SDKs use for a session they do not
// know; no specification has it.
const codeSessionNotFound = -32001

// sessionUnknown matches what servers write about a session they do not know,
// with the status 400 that says nothing.
var sessionUnknown = regexp.MustCompile(`(?i)\b(?:no valid|invalid|unknown|expired|missing) session|` +
	`\bsession\b.{0,40}\b(?:not found|not exist|unknown|invalid|expired|terminated|closed)|\bserver not initialized`)

// refusal makes an error of an answer whose status is no success. own: its body
// is the JSON-RPC error for the request.
func (b *httpBase) refusal(p httpReply, body []byte, own bool) error {
	switch {
	case authStatus(p.StatusCode):
		return &AuthError{Status: p.StatusCode, Hint: b.authHint(p.Header.Get("WWW-Authenticate"), body)}
	case sessionLost(p, body, own):
		return &SessionLostError{Status: p.StatusCode, Hint: b.excerpt(body)}
	}
	if !b.greeted() {
		if err := newerFromText(body); err != nil {
			return err
		}
	}
	return &statusError{
		status: p.StatusCode, text: b.statusText(p, body),
		retryAfter: retryAfter(p.Header.Get("Retry-After"), time.Now()),
	}
}

// statusText says what a status that is no success may mean.
func (b *httpBase) statusText(p httpReply, body []byte) string {
	text := fmt.Sprintf("%s answered HTTP status %d", b.peer, p.StatusCode)
	if name := http.StatusText(p.StatusCode); name != "" {
		text += " (" + name + ")"
	}
	if words := b.excerpt(body); words != "" {
		text += ": " + words
	}
	if b.greeted() || b.endpoint.FallbackSSE {
		return text // in the latter case what the other try brings counts too
	}
	if p.StatusCode == http.StatusNotFound || p.StatusCode == http.StatusMethodNotAllowed {
		text += "; is the url in its config the one for MCP?"
	}
	if wrongKind(p.StatusCode) {
		text += "; " + b.otherKind
	}
	return text
}

// wrongKind reports whether a server that speaks only the other transport over HTTP
// answers the first request with that status (MCP 2025-11-25, "Backwards
// Compatibility").
func wrongKind(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

// retryAfter reads the header of that name (RFC 9110, section 10.2.3): seconds or a
// date. What is neither, or past, is 0.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	switch seconds, err := strconv.ParseUint(value, 10, 31); {
	case err == nil:
		return time.Duration(seconds) * time.Second
	case errors.Is(err, strconv.ErrRange):
		return maxHold
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// sessionLost reports whether the server does not know the session of a request.
// By the specification it says so with 404; many say 400, as for a request
// without any. An error of their own for the request is something else, but for
// one code.
func sessionLost(p httpReply, body []byte, own bool) bool {
	missing := p.StatusCode == http.StatusNotFound
	if !p.inSession || !missing && p.StatusCode != http.StatusBadRequest {
		return false
	}
	var said *jsonrpc.Error
	if m, err := jsonrpc.Parse(body); err == nil && errors.As(errorOf(m), &said) && said.Code == codeSessionNotFound {
		return true
	}
	return !own && (missing || sessionUnknown.Match(body[:min(len(body), excerptRead)]))
}

// authWords finds what a challenge says for people (RFC 6750, section 3).
var authWords = regexp.MustCompile(`\b(?:error_description|error)="((?:[^"\\]|\\.)*)"`)

// authHint is what a server says about why it wants a log-in.
func (b *httpBase) authHint(challenge string, body []byte) string {
	hint := ""
	for _, found := range authWords.FindAllStringSubmatch(challenge, -1) {
		if hint == "" || strings.HasPrefix(found[0], "error_description") {
			hint = found[1]
		}
	}
	if hint != "" {
		return b.excerpt([]byte(hint))
	}
	return b.excerpt(body)
}
