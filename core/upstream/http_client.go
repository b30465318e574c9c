package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
)

// Settings of the shared HTTP client. Nothing in it limits how long a server may
// take to answer, or how long a stream may be silent.
const (
	dialTimeout = 10 * time.Second
	tlsTimeout  = 10 * time.Second
	// idleTimeout is how long an unused connection is kept. It is shorter than
	// the 5 s after which servers in Node.js and Python commonly close theirs: a
	// request that is on its way just then is lost, and is not sent again,
	// because it may have run.
	idleTimeout     = 4 * time.Second
	idlePerHost     = 32
	maxRedirects    = 5
	pingAfter       = 30 * time.Second
	pingTimeout     = 15 * time.Second
	keepAliveProbes = 3
)

// NewHTTPClient returns the client for all HTTP servers. It uses the proxies of
// the environment, but none to reach this machine, and it follows a redirect only
// to the same scheme, host and port. Whoever ends it calls CloseIdleConnections.
func NewHTTPClient() *http.Client { return newHTTPClient(nil) }

// newHTTPClient trusts the given authorities; nil are those of the system.
func newHTTPClient(roots *x509.CertPool) *http.Client {
	dialer := &loopbackDialer{net.Dialer{
		Timeout: dialTimeout,
		// Finds out that the other side is gone, after a sleep for instance.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pingAfter, Interval: pingTimeout, Count: keepAliveProbes},
	}}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               proxyFor,
			DialContext:         dialer.DialContext,
			ForceAttemptHTTP2:   true,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
			MaxIdleConnsPerHost: idlePerHost,
			IdleConnTimeout:     idleTimeout,
			TLSHandshakeTimeout: tlsTimeout,
			TLSClientConfig:     &tls.Config{RootCAs: roots},
		},
		CheckRedirect: sameOrigin,
	}
}

// maxCAFile is the size in bytes of the largest file of certificates that is read.
const maxCAFile = 4 << 20

// readCAFile reads the authorities of a PEM file and adds them to the system's.
func readCAFile(path string) (*x509.CertPool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading caFile: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxCAFile {
		return nil, fmt.Errorf("reading caFile %s: not a regular file of a sensible size", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading caFile: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // a system without any
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("reading caFile %s: it holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", path)
	}
	return roots, nil
}

// proxyFor is the proxy for a request, nil for none.
func proxyFor(r *http.Request) (*url.URL, error) {
	if isLoopback(r.URL.Hostname()) {
		return nil, nil
	}
	proxy, err := http.ProxyFromEnvironment(r)
	if err != nil {
		// The text of err shows the address, and with it a password.
		return nil, errors.New("the proxy address in the environment (HTTP_PROXY, HTTPS_PROXY) is not valid")
	}
	return proxy, nil
}

// isLoopback reports whether host is this machine: a loopback or unspecified
// address, or a name that RFC 6761, section 6.3, reserves for it.
func isLoopback(host string) bool {
	if isLocalhost(host) {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && (addr.Unmap().IsLoopback() || addr.Unmap().IsUnspecified())
}

func isLocalhost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// loopbackDialer reaches localhost in both address families, also where the
// machine's hosts file knows but one. For other names net.Dialer tries both.
type loopbackDialer struct{ net.Dialer }

// DialContext connects to address. When all fails the error is the first.
func (d *loopbackDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, first := d.Dialer.DialContext(ctx, network, address)
	if first == nil {
		return conn, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || !isLocalhost(host) {
		return nil, first
	}
	for _, literal := range []string{"::1", "127.0.0.1"} {
		if conn, err := d.Dialer.DialContext(ctx, network, net.JoinHostPort(literal, port)); err == nil {
			return conn, nil
		}
	}
	return nil, first
}

// redirectError says that a redirect was not followed.
type redirectError struct {
	status int
	why    string
}

func (e *redirectError) Error() string {
	return fmt.Sprintf("redirects (HTTP status %d) %s", e.status, e.why)
}

// sameOrigin is the CheckRedirect of the client. The headers of a request hold
// credentials, which are meant for the configured server only.
func sameOrigin(next *http.Request, via []*http.Request) error {
	why := ""
	first := via[0]
	switch {
	case origin(next.URL) != origin(first.URL):
		why = fmt.Sprintf("to %s, and credentials never go to another scheme, host or port: if that is the right server, put its address into the config", origin(next.URL))
	case next.Method != first.Method:
		why = fmt.Sprintf("%s to %s, which loses the message: put the final address into the config", first.Method, next.Method)
	case len(via) > maxRedirects:
		why = fmt.Sprintf("more than %d times", maxRedirects)
	default:
		return nil
	}
	return &redirectError{status: next.Response.StatusCode, why: why}
}

// origin is scheme, host and port of u.
func origin(u *url.URL) string { return u.Scheme + "://" + hostPort(u) }
