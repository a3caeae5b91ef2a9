package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quavon/quavon/runner/egress/egresstest"
	"github.com/quavon/quavon/runner/egress/intercept"
	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/secret"
	"github.com/quavon/quavon/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// value is the secret's, bound to api.example below /v1 in Authorization. @TOKEN@ is its
// placeholder in what tests send.
const (
	value = "tr0ub4dor-and-3-words"
	bound = "api.example"
)

// vault is the session of a step with a secret, and the host that the secret is bound to.
type vault struct {
	t       testing.TB
	session *Session
	set     secret.Set
	// roots vouch for what the client sees, host is who the real one is.
	roots *x509.CertPool
	host  *intercept.Authority
	// serve is the host; its connections come out of done.
	serve func(*visit)
	done  chan *visit
	// sent is how many bytes were written to the host, TLS and all.
	sent atomic.Int64
}

func newVault(t testing.TB, serve func(*visit)) *vault {
	t.Helper()
	b, err1 := secret.Bind(job.Secret{URL: "https://" + bound + "/v1", Header: "Authorization"})
	list, err2 := policy.New([]string{bound, "GET+POST=http://" + bound}, nil)
	ours, err3 := intercept.New([]string{bound})
	theirs, err4 := intercept.New([]string{bound})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	v := &vault{t: t, roots: x509.NewCertPool(), host: theirs, serve: serve, done: make(chan *visit, 1)}
	v.set = secret.Set{{Binding: b, Placeholder: secret.Mint(), Value: job.NewValue(value)}}
	v.roots.AppendCertsFromPEM(ours.PEM())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(theirs.PEM())
	p := New(Config{Operator: list, Resolver: v, Dialer: v, Roots: roots})
	v.session = p.Open(t.Context(), Grant{Policy: list, Secrets: v.set, Authority: ours})
	t.Cleanup(func() { v.session.Close() })
	return v
}

// Lookup implements Resolver.
func (v *vault) Lookup(context.Context, policy.Name) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("198.41.0.4")}, nil
}

// Dial implements Dialer: every address is the host.
func (v *vault) Dial(_ context.Context, addr netip.AddrPort, _ func(netip.Addr) error) (Conn, error) {
	here, there := egresstest.Pair(v.t)
	go v.visited(there, addr.Port() == 443)
	return counted{here, &v.sent}, nil
}

func (v *vault) visited(raw *net.TCPConn, secure bool) {
	defer raw.Close()
	o := &visit{Conn: raw, raw: raw}
	defer func() { v.done <- o }()
	if secure {
		conn, err := v.host.Accept(v.t.Context(), raw, bound)
		if err != nil {
			return
		}
		o.Conn = conn
	}
	v.serve(o)
}

// counted counts what is written.
type counted struct {
	Conn
	n *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.Conn.Write(p)
}

// visit is a connection that the host has got, and all that was read from it.
type visit struct {
	net.Conn
	raw  *net.TCPConn
	seen string
	err  error
	// heard are the frames of a WebSocket.
	heard string
}

// until reads until it has seen a text, or can't any more.
func (o *visit) until(text string) bool {
	buf := make([]byte, 4096)
	for !strings.Contains(o.seen, text) && o.err == nil {
		var n int
		n, o.err = o.Read(buf)
		o.seen += string(buf[:n])
	}
	return o.err == nil
}

// all reads to the end.
func (o *visit) all() { o.until("\x00 never \x00") }

// say writes texts, each by itself.
func (o *visit) say(texts ...string) {
	for _, text := range texts {
		if _, err := io.WriteString(o, text); err != nil {
			o.err = err
			return
		}
	}
}

// says is a host that answers every request's head with some texts, and closes.
func says(texts ...string) func(*visit) {
	return func(o *visit) {
		if o.until("\r\n\r\n") {
			o.say(texts...)
			o.Close()
		}
	}
}

// guest is the job's end of a connection through the proxy.
type guest struct {
	*intercept.Host
	v      *vault
	raw    *net.TCPConn
	served chan struct{}
}

// dial goes through the proxy to the host, as a client that checks certificates.
func (v *vault) dial() *guest {
	v.t.Helper()
	here, there := egresstest.Pair(v.t)
	g := &guest{v: v, raw: here, served: make(chan struct{})}
	go func() {
		defer close(g.served)
		v.session.Serve(there)
	}()
	v.t.Cleanup(func() { here.Close() })
	if _, err := io.WriteString(here, connectTo(bound+":443")); err != nil {
		v.t.Fatal(err)
	}
	in := &input{r: here}
	if h, err := in.head(); err != nil || !strings.Contains(h.line, " 200 ") || len(in.rest) > 0 {
		v.t.Fatal(h, err)
	}
	conn, err := intercept.Dial(v.t.Context(), here, bound, v.roots)
	if err != nil {
		v.t.Fatal(err)
	}
	g.Host = conn
	return g
}

// send writes a text with the placeholder in it. A failure shows in what is read.
func (g *guest) send(text string) { _, _ = io.WriteString(g, g.v.with(text)) }

// with puts the placeholder where it belongs.
func (v *vault) with(text string) string {
	return strings.ReplaceAll(text, "@TOKEN@", v.set[0].Placeholder)
}

// ask sends a request and returns all that comes back. The error is nil when that ended
// as it should, with an alert.
func (v *vault) ask(request string) (string, error) {
	v.t.Helper()
	g := v.dial()
	g.send(request)
	answer, err := io.ReadAll(g)
	g.raw.Close()
	<-g.served
	return string(answer), err
}

// refusals are the reasons that the session has counted.
func (v *vault) refusals() (reasons []string) {
	for _, r := range v.session.Tally().Refusals {
		reasons = append(reasons, slices.Repeat([]string{r.Reason}, int(r.Count))...)
	}
	return reasons
}

// lines are a request's head, or a response's.
func lines(l ...string) string { return strings.Join(l, "\r\n") + "\r\n\r\n" }

const (
	toBound = "Host: " + bound
	bearer  = "Authorization: Bearer @TOKEN@"
	fine    = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
)
