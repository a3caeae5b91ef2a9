package egress_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/test/need"
)

// forge is a real git server over HTTPS, git.example, whose authority is in PEM.
type forge struct {
	*httptest.Server
	authority []byte
}

func newForge(t *testing.T, repositories string) *forge {
	t.Helper()
	exe, err := exec.Command("git", "--exec-path").Output()
	backend := filepath.Join(strings.TrimSpace(string(exe)), "git-http-backend")
	if err == nil {
		_, err = os.Stat(backend)
	}
	if err != nil {
		need.Skip(t, "no git server: %v", err)
	}
	certificate, authority := vouched(t, "git.example")
	f := &forge{authority: authority}
	f.Server = httptest.NewUnstartedServer(&cgi.Handler{
		Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + repositories, "GIT_HTTP_EXPORT_ALL=1"}, Stderr: io.Discard,
	})
	f.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.StartTLS()
	t.Cleanup(f.Close)
	return f
}

// vouched is a certificate for a name by an authority of its own.
func vouched(t *testing.T, name string) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Lookup implements proxy.Resolver.
func (f *forge) Lookup(context.Context, policy.Name) ([]netip.Addr, error) {
	return []netip.Addr{goodAddr}, nil
}

// Dial implements proxy.Dialer.
func (f *forge) Dial(ctx context.Context, addr netip.AddrPort, check func(netip.Addr) error) (proxy.Conn, error) {
	if err := check(addr.Addr()); err != nil {
		return nil, err
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", f.Listener.Addr().String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// repository makes r.git with one commit.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	sh := `git init -q w && cd w && echo fetched >file && git add file &&
		git -c user.name=x -c user.email=x@example.org commit -q -m x && cd .. && git clone -q --bare w r.git`
	cmd := exec.Command("sh", "-c", sh)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// git clones over HTTPS through the door, and fails at once and clearly when its host
// isn't allowed, or without a network.
func TestGitClone(t *testing.T) {
	t.Parallel()
	f := newForge(t, repository(t))
	r := newRunner(t)
	r.Door = egress.Local{Proxy: proxy.New(proxy.Config{Operator: rules(t, "git.example", unused), Resolver: f, Dialer: f})}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), f.authority, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		network job.Network
		allow   string
		want    string
		exit    int
	}{
		"allowed":     {job.NetworkRegistries, "git.example", "fetched", 0},
		"not allowed": {job.NetworkRegistries, unused, "403", 128},
		"no network":  {job.NetworkNone, unused, "Could not resolve host: git.example", 128},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := script(dir, 0, "git clone -q https://git.example/r.git c && cat c/file")
			s.Steps[0].Network, s.Allow = c.network, []string{c.allow}
			s.Steps[0].Env = []string{"GIT_SSL_CAINFO=" + job.WorkspaceDir + "/ca.pem", "GIT_TERMINAL_PROMPT=0"}
			var out bytes.Buffer
			res, err := r.Run(t.Context(), s, runner.Streams{Stdout: &out, Stderr: &out})
			if err != nil || res.Exit != c.exit || !strings.Contains(out.String(), c.want) {
				t.Fatalf("exit %d, %v: %s", res.Exit, err, out.String())
			}
			if c.exit != 0 && res.Steps[0].Wall > time.Minute { // it would ask again and again for longer
				t.Errorf("it took %v to fail", res.Steps[0].Wall)
			}
			if refused := res.Egress != nil && res.Egress.Refused > 0; refused != (name == "not allowed") {
				t.Errorf("counted %+v", res.Egress)
			}
			t.Logf("%s after %v", strings.TrimSpace(out.String()), res.Steps[0].Wall)
		})
	}
}
