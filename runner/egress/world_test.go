package egress_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/test/loopback"
)

// goodAddr is where the names that may be reached lead to. Whatever else the proxy
// dials ends at the victim.
var goodAddr = netip.MustParseAddr("198.41.0.4")

// world is everything outside of the sandbox: a name server, a good server, and a
// victim that must see nothing. It is all on this host's loopback.
type world struct {
	t *testing.T
	// http and tls are the good server's, victim listens for what must not be.
	http, tls, victim net.Listener

	mu sync.Mutex
	// names maps names to what they resolve to; flip alternates between the first
	// and the second.
	names map[policy.Name][]netip.Addr
	flips map[policy.Name]int
	// asked are the names that were resolved, seen what the good server was asked for,
	// hit what reached the victim.
	asked, seen, hit []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, names: map[policy.Name][]netip.Addr{}, flips: map[policy.Name]int{}}
	host := loopback.Host()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	w.http, w.victim = listen(), listen()
	w.tls = tls.NewListener(listen(), &tls.Config{
		Certificates:       []tls.Certificate{certificate(t)},
		GetConfigForClient: w.sawHello,
	})
	for _, l := range []net.Listener{w.http, w.tls} {
		server := &http.Server{Handler: http.HandlerFunc(w.serve), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
	}
	go w.watch(w.victim)
	return w
}

// certificate is one that nobody vouches for.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (w *world) sawHello(h *tls.ClientHelloInfo) (*tls.Config, error) {
	w.note(&w.seen, "sni "+h.ServerName)
	return nil, nil
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	w.note(&w.seen, r.Method+" "+r.Host+r.URL.Path)
	fmt.Fprintf(rw, "you reached %s\n", r.URL.Path)
}

// watch notes everything that reaches a listener which nothing may reach.
func (w *world) watch(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		w.note(&w.hit, c.LocalAddr().String()+" from "+c.RemoteAddr().String())
		c.Close()
	}
}

func (w *world) note(list *[]string, s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, s)
}

// take returns what was noted and forgets it.
func (w *world) take() (asked, seen, hit []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked, seen, hit = w.asked, w.seen, w.hit
	w.asked, w.seen, w.hit = nil, nil, nil
	return asked, seen, hit
}

// Lookup implements proxy.Resolver.
func (w *world) Lookup(_ context.Context, name policy.Name) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, string(name))
	addrs := w.names[name]
	if len(addrs) == 0 {
		return nil, errors.New("no such host")
	}
	n := w.flips[name]
	w.flips[name]++
	if strings.HasPrefix(string(name), "rebind") {
		return addrs[n%len(addrs) : n%len(addrs)+1], nil
	}
	return addrs, nil
}

// Dial implements proxy.Dialer: it checks the address as the real one does, and then
// goes where this host plays it.
func (w *world) Dial(ctx context.Context, addr netip.AddrPort, check func(netip.Addr) error) (proxy.Conn, error) {
	if err := check(addr.Addr()); err != nil {
		return nil, err
	}
	to := w.victim
	switch addr {
	case netip.AddrPortFrom(goodAddr, 80):
		to = w.http
	case netip.AddrPortFrom(goodAddr, 443):
		to = w.tls
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", to.Addr().String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// rules is a policy of rules that must be right.
func rules(t testing.TB, list ...string) policy.Policy {
	t.Helper()
	p, err := policy.New(list, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// attacker builds the program that tries things, alone in a directory.
func attacker(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "attacker"), "./testdata/attacker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return dir
}

func pname(s string) policy.Name { return policy.Name(s) }
