package upstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcp-funnel/core/jsonrpc"
)

func TestC52_NothingLimitsHowLongAnAnswerTakes(t *testing.T) {
	client := NewHTTPClient()
	if client.Timeout != 0 {
		t.Errorf("the client ends requests after %s", client.Timeout)
	}
	if limit := client.Transport.(*http.Transport).ResponseHeaderTimeout; limit != 0 {
		t.Errorf("the client waits for headers no longer than %s", limit)
	}
}

// proxyProbe, in the environment, makes a test binary print the proxies of the
// URLs in it. A process reads the proxy settings once, so each case needs its own.
const proxyProbe = "MCP_FUNNEL_TEST_PROXY_OF"

func TestC55_LoopbackIsNeverProxied(t *testing.T) {
	if urls := os.Getenv(proxyProbe); urls != "" {
		printProxies(urls)
		return
	}
	const urls = "http://127.0.0.1:5/mcp http://[::1]:5/mcp http://localhost:5/mcp http://app.localhost./mcp " +
		"http://127.9.9.9/mcp http://0.0.0.0:5/mcp http://[::ffff:127.0.0.1]/mcp " +
		"http://remote.example/mcp https://remote.example/mcp http://inside.example/mcp"
	cmd := exec.Command(os.Args[0], "-test.run=^TestC55_LoopbackIsNeverProxied$", "-test.v")
	cmd.Env = []string{
		proxyProbe + "=" + urls, "GORACE=atexit_sleep_ms=0", "HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:10",
		"NO_PROXY=inside.example", "HOME=" + t.TempDir(),
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if address, proxy, ok := strings.Cut(strings.TrimSpace(line), " goes by "); ok {
			got[address] = proxy
		}
	}
	for address := range strings.FieldsSeq(urls) {
		want := "none"
		switch {
		case strings.HasPrefix(address, "http://remote"):
			want = "http://127.0.0.1:9"
		case strings.HasPrefix(address, "https://remote"):
			want = "http://127.0.0.1:10"
		}
		if got[address] != want {
			t.Errorf("the proxy of %s is %q, want %q", address, got[address], want)
		}
	}
}

func printProxies(urls string) {
	proxy := NewHTTPClient().Transport.(*http.Transport).Proxy
	for address := range strings.FieldsSeq(urls) {
		u, err := url.Parse(address)
		if err != nil {
			panic(err)
		}
		through, err := proxy(&http.Request{URL: u})
		switch {
		case err != nil:
			fmt.Println(address, "goes by", err)
		case through == nil:
			fmt.Println(address, "goes by none")
		default:
			fmt.Println(address, "goes by", through)
		}
	}
}

// onLoopback starts the peer on one address family only.
func onLoopback(t *testing.T, address string) (port string) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Skipf("no listening on %s here: %v", address, err)
	}
	peer := newHTTPPeer(t, nil)
	only := httptest.NewUnstartedServer(peer)
	_ = only.Listener.Close()
	only.Listener = listener
	only.Start()
	t.Cleanup(only.Close)
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	return port
}

func TestC56_LocalhostIsReachedInBothFamilies(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		t.Run(address, func(t *testing.T) {
			port := onLoopback(t, address)
			began := time.Now()
			transport, sink := greetPeer(t, endpointOf(t, "http://localhost:"+port))
			if took := time.Since(began); took > time.Second {
				t.Errorf("connecting took %s", took)
			}
			assertLives(t, transport, sink)
		})
	}
}

func TestC56_RefusedLiteralNamesAddressAndPort(t *testing.T) {
	port := onLoopback(t, "::1")
	transport, sink := openPeer(t, endpointOf(t, "http://127.0.0.1:"+port))
	sendLine(t, transport, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	err := sink.failed(t)
	if !dialFailed(err) || !strings.Contains(err.Error(), "127.0.0.1:"+port) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("the error is %q", err)
	}
}

func TestHTTPCredentialsNeverFollowToAnotherOrigin(t *testing.T) {
	other := newHTTPPeer(t, nil)
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			peer := newHTTPPeer(t, func(p *httpPeer) {
				p.first = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
					http.Redirect(w, r, other.URL+"/?canary", status)
					return true
				}
			})
			e := endpointOf(t, peer.URL)
			e.Headers = map[string]string{"X-Api-Key": "canary"}
			transport, sink := openPeer(t, e)
			sendLine(t, transport, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
			err := sink.failed(t)
			var redirect *redirectError
			if !errors.As(err, &redirect) || redirect.status != status || !strings.Contains(err.Error(), other.URL+",") {
				t.Errorf("the error is %v", err)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("%q shows a query", err)
			}
		})
	}
	if got := other.requests(""); len(got) > 0 {
		t.Errorf("the other server got %v", got)
	}
}

func TestHTTPRedirectOnTheSameServerIsFollowed(t *testing.T) {
	loops := false
	peer := newHTTPPeer(t, func(p *httpPeer) {
		p.first = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
			if r.URL.Path == "/there" && !loops {
				return false
			}
			http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
			return true
		}
	})
	e := endpointOf(t, peer.URL+"/here")
	e.Headers = map[string]string{"Authorization": "Bearer k"}
	transport, sink := greetPeer(t, e)
	assertLives(t, transport, sink)
	for _, seen := range peer.requests(http.MethodPost) {
		if got := seen.header.Get("Authorization"); got != "Bearer k" || seen.body == "" {
			t.Errorf("%s came with Authorization %q and body %q", seen.path, got, seen.body)
		}
	}
	loops = true
	before := len(peer.requests(http.MethodPost))
	sendCall(t, transport, 2)
	if err := sink.failed(t); !strings.Contains(err.Error(), "more than 5 times") {
		t.Errorf("a loop of redirects failed with %v", err)
	}
	if got := len(peer.requests(http.MethodPost)) - before; got != 1+maxRedirects {
		t.Errorf("a loop of redirects took %d requests", got)
	}
	loops = false
	assertLives(t, transport, sink)
}

func TestSameOriginTakesImpliedPorts(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"https://h/a", "https://H:443/b", true},
		{"http://h/a", "http://h:80/b", true},
		{"https://h/a", "http://h/a", false},
		{"https://h/a", "https://h:8443/a", false},
		{"https://h/a", "https://sub.h/a", false},
	} {
		a, errA := url.Parse(test.a)
		b, errB := url.Parse(test.b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		next := &http.Request{Method: http.MethodPost, URL: b, Response: &http.Response{StatusCode: 307}}
		err := sameOrigin(next, []*http.Request{{Method: http.MethodPost, URL: a}})
		if (err == nil) != test.same {
			t.Errorf("a redirect from %s to %s: %v", test.a, test.b, err)
		}
	}
}

func TestHTTPOverTLS(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			peer := newHTTPPeer(t, func(p *httpPeer) {
				p.listen = func(w http.ResponseWriter, r *http.Request) {
					if (r.ProtoMajor == 2) != http2 {
						t.Errorf("the stream is opened with %s", r.Proto)
					}
					startEvents(w)(oddNotice)
					<-r.Context().Done()
				}
			})
			secure := httptest.NewUnstartedServer(peer)
			secure.EnableHTTP2 = http2
			secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
			secure.StartTLS()
			t.Cleanup(secure.Close)

			e := endpointOf(t, secure.URL)
			transport, sink := openPeer(t, e)
			sendLine(t, transport, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
			if err := sink.failed(t); !strings.Contains(err.Error(), "certificate") {
				t.Errorf("a certificate nobody vouches for failed with %v", err)
			}
			e = endpointOf(t, secure.URL)
			e.Client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{
				RootCAs: secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
			}
			transport, sink = greetPeer(t, e)
			if got := sink.next(t); got != oddNotice {
				t.Errorf("on the listening stream came %s", got)
			}
			assertLives(t, transport, sink)
		})
	}
}
