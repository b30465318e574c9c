package endpoint

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
)

// path is where the endpoint is; a token may follow as one more element.
const path = "/mcp"

// guard decides who may come in.
type guard struct {
	token digest
	// remote: other machines may call, by any address of this one or its names.
	remote bool
	names  []string
}

// machineNames are the names by which others on the network know this machine.
func machineNames() []string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return nil // addresses remain
	}
	short, _, _ := strings.Cut(name, ".")
	return []string{strings.ToLower(name), strings.ToLower(short), strings.ToLower(short) + ".local"}
}

// check returns the status of a refusal and what to say, or 0. It never repeats
// anything of the request, which may hold the token.
func (g guard) check(r *http.Request) (status int, why string) {
	token, ours := cutPath(r.URL.Path)
	switch {
	case !g.allowsHost(r.Host):
		return http.StatusForbidden, "the Host header does not name this machine"
	case !allowsOrigins(r.Header.Values("Origin")):
		return http.StatusForbidden, "web pages of other machines may not call this"
	case !ours:
		return http.StatusNotFound, "there is only " + path
	case !g.knows(token) && !g.knows(bearer(r.Header.Values("Authorization"))):
		return http.StatusUnauthorized, "the token is missing or wrong; it is in the file http-token in the state folder, " +
			"and goes into the header \"Authorization: Bearer TOKEN\" or into the address, " + path + "/TOKEN"
	}
	return 0, ""
}

// knows compares in constant time.
func (g guard) knows(token string) bool {
	given := digestOf(token)
	return subtle.ConstantTimeCompare(given[:], g.token[:]) == 1
}

// cutPath splits the path of a request into the endpoint's own and a token, "" for none;
// false when it is another path.
func cutPath(p string) (token string, ours bool) {
	rest, ours := strings.CutPrefix(p, path)
	if !ours || rest == "" {
		return "", ours
	}
	token, ours = strings.CutPrefix(rest, "/")
	if !ours || strings.Contains(token, "/") {
		return "", false
	}
	return token, true
}

// bearer is the token in the Authorization header (RFC 6750, 2.1), "" for none.
func bearer(values []string) string {
	if len(values) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// allowsHost reports whether a Host header names this machine. Its port may be any: it
// may be that of a tunnel. An address cannot be a rebound name, so that any will do
// where others may call at all.
func (g guard) allowsHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")); err == nil {
		return g.remote || ip.Unmap().IsLoopback()
	}
	return host == "localhost" || g.remote && slices.Contains(g.names, host)
}

// allowsOrigins reports whether a request comes from no web page, or from one of this
// machine.
func allowsOrigins(origins []string) bool {
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !(guard{}).allowsHost(u.Host) {
			return false
		}
	}
	return true
}
