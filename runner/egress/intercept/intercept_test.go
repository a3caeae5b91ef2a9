package intercept_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"testing"

	"github.com/quavon/quavon/runner/egress/egresstest"
	"github.com/quavon/quavon/runner/egress/intercept"
)

func authority(t *testing.T, hosts ...string) (*intercept.Authority, *x509.CertPool) {
	t.Helper()
	a, err := intercept.New(hosts)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(a.PEM()) {
		t.Fatal("the authority is no certificate")
	}
	return a, pool
}

// accept lets an authority answer as a host, and returns what a client's handshake says.
func accept(t *testing.T, a *intercept.Authority, host string, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	here, there := egresstest.Pair(t)
	served := make(chan error, 1)
	go func() {
		_, err := a.Accept(t.Context(), there, host)
		if err != nil {
			there.Close()
		}
		served <- err
	}()
	c := tls.Client(here, client)
	err := c.HandshakeContext(t.Context())
	if err != nil {
		here.Close()
	}
	return c.ConnectionState(), errors.Join(err, <-served)
}

// TestAccept: the job's client sees a certificate for a bound host alone, and HTTP/1.1.
func TestAccept(t *testing.T) {
	t.Parallel()
	a, pool := authority(t, "ok.example", "ok.example", "two.example")
	other, _ := authority(t, "ok.example")
	for _, c := range []struct {
		name string
		by   *intercept.Authority
		as   string
		cfg  *tls.Config
		ok   bool
	}{
		{"a bound host", a, "ok.example", &tls.Config{ServerName: "ok.example", RootCAs: pool}, true},
		{"the other one", a, "two.example", &tls.Config{ServerName: "two.example", RootCAs: pool, MaxVersion: tls.VersionTLS12}, true},
		{"HTTP/2 if it can be had", a, "ok.example", &tls.Config{ServerName: "ok.example", RootCAs: pool, NextProtos: []string{"h2", "http/1.1"}}, true},
		{"HTTP/2 alone", a, "ok.example", &tls.Config{ServerName: "ok.example", RootCAs: pool, NextProtos: []string{"h2"}}, false},
		{"old TLS", a, "ok.example", &tls.Config{ServerName: "ok.example", RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, false},
		{"a host of no secret", a, "evil.example", &tls.Config{ServerName: "evil.example", RootCAs: pool}, false},
		{"below a bound host", a, "x.ok.example", &tls.Config{ServerName: "x.ok.example", RootCAs: pool}, false},
		{"one host as the other", a, "two.example", &tls.Config{ServerName: "ok.example", RootCAs: pool}, false},
		{"another step's authority", other, "ok.example", &tls.Config{ServerName: "ok.example", RootCAs: pool}, false},
	} {
		state, err := accept(t, c.by, c.as, c.cfg)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if p := state.NegotiatedProtocol; p != "" && p != "http/1.1" {
			t.Errorf("%s: it speaks %s", c.name, p)
		}
	}
}

// TestConstraints: the authority is constrained to its hosts itself, whoever has its key.
func TestConstraints(t *testing.T) {
	t.Parallel()
	a, _ := authority(t, "ok.example")
	cert, err := x509.ParseCertificate(a.DER())
	if err != nil {
		t.Fatal(err)
	}
	if len(cert.PermittedDNSDomains) != 1 || cert.PermittedDNSDomains[0] != "ok.example" || !cert.PermittedDNSDomainsCritical ||
		!cert.MaxPathLenZero || cert.KeyUsage != x509.KeyUsageCertSign {
		t.Errorf("%+v", cert)
	}
}

// TestForget: once the step has ended nobody is vouched for, also not a host that was.
func TestForget(t *testing.T) {
	t.Parallel()
	a, pool := authority(t, "ok.example")
	cfg := &tls.Config{ServerName: "ok.example", RootCAs: pool}
	if _, err := accept(t, a, "ok.example", cfg); err != nil {
		t.Fatal(err)
	}
	a.Forget()
	if _, err := accept(t, a, "ok.example", cfg); err == nil {
		t.Error("it is vouched for")
	}
}

// TestDial: the real host must be who it says, by the roots that are trusted.
func TestDial(t *testing.T) {
	t.Parallel()
	host, pool := authority(t, "ok.example", "evil.example")
	_, others := authority(t, "ok.example")
	for _, c := range []struct {
		name, as string
		roots    *x509.CertPool
		ok       bool
	}{
		{"itself", "ok.example", pool, true},
		{"another host", "evil.example", pool, false},
		{"roots that don't know it", "ok.example", others, false},
		{"this system's roots", "ok.example", nil, false},
	} {
		here, there := egresstest.Pair(t)
		served := make(chan []byte, 1)
		go func() {
			var got []byte
			if conn, err := host.Accept(t.Context(), there, c.as); err == nil {
				got, _ = io.ReadAll(conn)
			}
			there.Close()
			served <- got
		}()
		conn, err := intercept.Dial(t.Context(), here, "ok.example", c.roots)
		if err == nil {
			_, _ = io.WriteString(conn, "request")
			conn.Close()
		}
		here.Close()
		got := <-served
		if (err == nil) != c.ok || (string(got) == "request") != c.ok {
			t.Errorf("%s: %v, the host saw %q", c.name, err, got)
		}
	}
}

// TestSilence: whoever says nothing is left when the context ends, on both sides.
func TestSilence(t *testing.T) {
	t.Parallel()
	a, pool := authority(t, "ok.example")
	for name, shake := range map[string]func(context.Context, intercept.Conn) error{
		"a silent client": func(ctx context.Context, c intercept.Conn) error {
			_, err := a.Accept(ctx, c, "ok.example")
			return err
		},
		"a silent host": func(ctx context.Context, c intercept.Conn) error {
			_, err := intercept.Dial(ctx, c, "ok.example", pool)
			return err
		},
	} {
		here, there := egresstest.Pair(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- shake(ctx, here) }()
		cancel(errors.New("the step has ended"))
		if err := <-ended; err == nil {
			t.Errorf("%s: it shook hands", name)
		}
		_, _ = io.Copy(io.Discard, there) // ends, as the connection was closed
	}
}
