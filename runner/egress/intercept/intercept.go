// Package intercept ends the TLS of a job's connection to a host that a secret is
// bound to: an authority for one step, certificates for those hosts alone, and the
// way on to the real server, whose certificate is checked.
package intercept

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"time"
)

// life is how long certificates are valid, and skew how much a client's clock may
// be behind. The keys live only as long as the step.
const (
	life = 30 * 24 * time.Hour
	skew = time.Hour
)

// Authority vouches for the hosts of one step's secrets, and for no other.
type Authority struct {
	der   []byte
	hosts []string

	mu     sync.Mutex
	key    *ecdsa.PrivateKey // nil once forgotten
	leaves map[string]*tls.Certificate
}

// New makes an authority for hosts.
func New(hosts []string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	hosts = slices.Compact(slices.Sorted(slices.Values(hosts)))
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "quavon: a job's own authority"},
		NotBefore: time.Now().Add(-skew), NotAfter: time.Now().Add(life),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: hosts,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	return &Authority{der: der, hosts: hosts, key: key, leaves: map[string]*tls.Certificate{}}, nil
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}

// PEM is the authority's certificate.
func (a *Authority) PEM() []byte { return Encode(a.der) }

// DER is the same, as it is sent.
func (a *Authority) DER() []byte { return a.der }

// Encode writes a certificate as PEM.
func Encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Forget drops the keys: nothing can be vouched for any more.
func (a *Authority) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.key, a.leaves = nil, nil
}

var errForgotten = errors.New("the step has ended")

// leaf is the certificate for a host.
func (a *Authority) leaf(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.key == nil {
		return nil, errForgotten
	}
	if have := a.leaves[host]; have != nil {
		return have, nil
	}
	if !slices.Contains(a.hosts, host) {
		return nil, fmt.Errorf("no secret is bound to %s", host)
	}
	made, err := a.mint(host)
	if err == nil {
		a.leaves[host] = made
	}
	return made, err
}

func (a *Authority) mint(host string) (*tls.Certificate, error) {
	issuer, err := x509.ParseCertificate(a.der)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), DNSNames: []string{host},
		NotBefore: issuer.NotBefore, NotAfter: issuer.NotAfter, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der, a.der}, PrivateKey: key}, nil
}

// only is the one protocol that is spoken: what is inside must be read.
var only = []string{"http/1.1"}

// Accept shakes hands with the job's client, as host.
func (a *Authority) Accept(ctx context.Context, conn Conn, host string) (*tls.Conn, error) {
	leaf, err := a.leaf(host)
	if err != nil {
		return nil, err
	}
	t := tls.Server(&netConn{Conn: conn}, &tls.Config{
		Certificates: []tls.Certificate{*leaf}, MinVersion: tls.VersionTLS12, NextProtos: only,
	})
	return t, t.HandshakeContext(ctx)
}

// Dial shakes hands with the real host over conn. roots are whom it may be vouched for
// by, nil for this system's.
func Dial(ctx context.Context, conn Conn, host string, roots *x509.CertPool) (*Host, error) {
	raw := &netConn{Conn: conn}
	t := tls.Client(raw, &tls.Config{ServerName: host, RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: only})
	return &Host{t, raw}, t.HandshakeContext(ctx)
}
