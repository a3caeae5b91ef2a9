package proxy

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/test/loopback"
)

const password = "s3cr%3At/word"

// corporate is an operator's proxy: it knows names that this host doesn't, and what
// it is asked for.
type corporate struct {
	*httptest.Server
	wants string // Proxy-Authorization

	mu    sync.Mutex
	asked []string
}

func newCorporate(t *testing.T, scheme, wants, behind string) *corporate {
	t.Helper()
	c := &corporate{wants: wants}
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.asked = append(c.asked, r.Method+" "+r.Host)
		c.mu.Unlock()
		if r.Header.Get("Proxy-Authorization") != c.wants {
			w.Header().Set("Proxy-Authenticate", "Basic realm="+password)
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		up, err := net.Dial("tcp", behind)
		if err != nil {
			t.Error(err)
			return
		}
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 Connected\r\nVia: corporate\r\n\r\n")
		go func() {
			_, _ = io.Copy(up, buffered)
			_ = up.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(conn, up)
		conn.Close()
		up.Close()
	}))
	c.Config.ErrorLog = log.New(io.Discard, "", 0)
	if scheme == "https" {
		c.StartTLS()
	} else {
		c.Start()
	}
	t.Cleanup(c.Close)
	return c
}

// roots vouch for the proxy, if it speaks TLS.
func (c *corporate) roots() *x509.CertPool {
	if c.Certificate() == nil {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AddCert(c.Certificate())
	return pool
}

func (c *corporate) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asked
	c.asked = nil
	return asked
}

// inside resolves one name to an address that may not be dialled, and dials nothing.
type inside struct {
	t     *testing.T
	asked []string
}

func (i *inside) Lookup(_ context.Context, name policy.Name) ([]netip.Addr, error) {
	i.asked = append(i.asked, string(name))
	return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
}

func (i *inside) Dial(_ context.Context, addr netip.AddrPort, _ func(netip.Addr) error) (Conn, error) {
	i.t.Error("dialled", addr)
	return nil, errors.New("not here")
}

// ask asks a session for something and returns all that it answers.
func ask(t *testing.T, s *Session, request string) string {
	t.Helper()
	l, err := net.Listen("tcp", loopback.Host()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.Serve(c.(*net.TCPConn))
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	_ = c.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	<-served
	return string(answer)
}

func connectTo(target string) string {
	return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n"
}

// TestUpstream: the way on through a proxy of the operator's. It resolves, and is
// only asked for what the policy allows; its credentials are seen by nobody else.
func TestUpstream(t *testing.T) {
	t.Parallel()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" {
			t.Error("the host got the proxy's credentials")
		}
		fmt.Fprintf(w, "you reached %s%s", r.Host, r.URL.Path)
	}))
	t.Cleanup(origin.Close)
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+password))
	get := func(name string) string {
		return "GET http://" + name + "/x HTTP/1.1\r\nHost: " + name + "\r\nProxy-Authorization: Basic am9iOmpvYg==\r\n\r\n"
	}
	raw := connectTo("raw.example:9418") + "GET /y HTTP/1.0\r\nHost: raw.example\r\n\r\n"
	for _, c := range []struct {
		name, wants  string
		user         *url.Userinfo
		request      string
		answer, line string   // part of what the client and the log are told
		asked        []string // of the operator's proxy
		resolved     []string // here
	}{
		{"plain HTTP", "", nil, get("ok.example"), "you reached ok.example/x", `"connected":true`, []string{"CONNECT ok.example:80"}, nil},
		{"a tunnel", "", nil, raw, "you reached raw.example/y", `"connected":true`, []string{"CONNECT raw.example:9418"}, nil},
		{
			"with credentials", basic, url.UserPassword("me", password), raw, "you reached raw.example/y", `"connected":true`,
			[]string{"CONNECT raw.example:9418"},
			nil,
		},
		{
			"other credentials", basic, url.UserPassword("me", password+"x"), raw, "HTTP/1.1 502", "407",
			[]string{"CONNECT raw.example:9418"},
			nil,
		},
		{"no credentials", basic, nil, get("ok.example"), "HTTP/1.1 502", "407", []string{"CONNECT ok.example:80"}, nil},
		{
			"a host that isn't allowed", "", nil, connectTo("evil.example:443"), "403 Refused by quavon: host_not_allowed",
			"host_not_allowed", nil, nil,
		},
		{"an address", "", nil, connectTo("10.0.0.1:443"), "403 Refused by quavon: ip_literal", "ip_literal", nil, nil},
		{
			"a host of NO_PROXY is checked here", "", nil, get("near.example"), "403 Refused by quavon: address_forbidden",
			"address_forbidden", nil,
			[]string{"near.example"},
		},
	} {
		for _, scheme := range []string{"http", "https"} {
			t.Run(c.name+" by "+scheme, func(t *testing.T) {
				t.Parallel()
				corp := newCorporate(t, scheme, c.wants, origin.Listener.Addr().String())
				answer, logged, resolved := corp.through(t, c.user, corp.roots(), c.request)
				if !strings.Contains(answer, c.answer) || !strings.Contains(logged, c.line) {
					t.Errorf("answer %q, log %s", answer, logged)
				}
				if asked := corp.take(); !slices.Equal(asked, c.asked) || !slices.Equal(resolved, c.resolved) {
					t.Errorf("the proxy was asked for %v, the resolver for %v", asked, resolved)
				}
				for _, told := range []string{answer, logged} {
					if strings.Contains(told, "s3cr") || strings.Contains(told, strings.TrimPrefix(basic, "Basic ")[:12]) ||
						strings.Contains(told, corp.Listener.Addr().String()) {
						t.Errorf("it tells about the operator's proxy: %q", told)
					}
				}
			})
		}
	}
	t.Run("by TLS that nobody vouches for", func(t *testing.T) {
		t.Parallel()
		corp := newCorporate(t, "https", "", origin.Listener.Addr().String())
		answer, logged, _ := corp.through(t, url.UserPassword("me", password), x509.NewCertPool(), raw)
		if asked := corp.take(); len(asked) > 0 || !strings.HasPrefix(answer, "HTTP/1.1 502") || !strings.Contains(logged, "can't be reached") {
			t.Errorf("the proxy was asked for %v, answer %q, log %s", asked, answer, logged)
		}
	})
}

// through asks for something by way of an operator's proxy, and returns the answer, the
// log, and the names that were resolved here.
func (c *corporate) through(t *testing.T, user *url.Userinfo, roots *x509.CertPool, request string) (answer, logged string, resolved []string) {
	t.Helper()
	via, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	via.User = user
	in, log := &inside{t: t}, &bytes.Buffer{}
	p := New(Config{
		Operator: mustPolicy(t), Resolver: in, Dialer: in, Roots: roots, Log: slog.New(slog.NewJSONHandler(log, nil)),
		Upstream: func(_ policy.Scheme, name policy.Name, _ uint16) (*url.URL, error) {
			if name == "near.example" {
				return nil, nil
			}
			return via, nil
		},
	})
	s := p.Open(t.Context(), Grant{Policy: mustPolicy(t)})
	answer = ask(t, s, request)
	s.Close()
	return answer, log.String(), in.asked
}

// TestUpstreamIsNoURL: a setting that can't be read isn't repeated in the log.
func TestUpstreamIsNoURL(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := New(Config{
		Operator: mustPolicy(t), Resolver: &inside{t: t}, Log: slog.New(slog.NewJSONHandler(&log, nil)),
		Upstream: func(policy.Scheme, policy.Name, uint16) (*url.URL, error) {
			return nil, &url.Error{Op: "parse", URL: "http://me:s3cr et@proxy.example", Err: errors.New("net/url: invalid userinfo")}
		},
	})
	s := p.Open(t.Context(), Grant{Policy: mustPolicy(t)})
	answer := ask(t, s, connectTo("raw.example:9418"))
	s.Close()
	if !strings.Contains(answer, "502") || strings.Contains(answer+log.String(), "s3cr") {
		t.Errorf("answer %q, log %s", answer, &log)
	}
}

func mustPolicy(t *testing.T) policy.Policy {
	t.Helper()
	p, err := policy.New([]string{"http://ok.example", "http://near.example", "tcp://raw.example:9418"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
