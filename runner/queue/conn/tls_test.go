package conn_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/queuetest"
)

// TLS with our own certificate, against a real server; and not with a wrong one.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t, dir, "valkey.example")
	other, _ := certificate(t, t.TempDir(), "valkey.example")
	port := freePort(t)
	queuetest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	good := conn.Settings{Addresses: []string{"127.0.0.1:" + port}, TLS: true, CAFile: cert, CertFile: cert, KeyFile: key, ServerName: "valkey.example"}
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

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func certificate(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(fmt.Errorf("write %s: %w", file, err))
		}
	}
	return cert, key
}
