package conn_test

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/queuetest"
	"github.com/quavon/quavon/test/loopback"
)

// TLS with our own certificate, against a real server; and not with a wrong one.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := queuetest.Certificate(t, dir, "valkey.example")
	other, _ := queuetest.Certificate(t, t.TempDir(), "valkey.example")
	host, port := loopback.Free(t)
	queuetest.Start(t, "--bind", host, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	good := conn.Settings{Addresses: []string{net.JoinHostPort(host, port)}, TLS: true, CAFile: cert, CertFile: cert, KeyFile: key, ServerName: "valkey.example"}
	c, err := conn.Open(good)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Do(t.Context(), c.B().Ping().Build()).Error(); err != nil {
		t.Error(err)
	}
	for name, edit := range map[string]func(*conn.Settings){
		"another CA":       func(s *conn.Settings) { s.CAFile = other },
		"the system's CAs": func(s *conn.Settings) { s.CAFile = "" },
		"another name":     func(s *conn.Settings) { s.ServerName = "other.example" },
		"no client cert":   func(s *conn.Settings) { s.CertFile, s.KeyFile = "", "" },
		"no TLS":           func(s *conn.Settings) { s.TLS = false },
		"no file":          func(s *conn.Settings) { s.CAFile = filepath.Join(dir, "none") },
	} {
		s := good
		edit(&s)
		if c, err := conn.Open(s); err == nil {
			c.Close()
			t.Errorf("%s: connected", name)
		}
	}
}
