package signature_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	sig "github.com/sigstore/sigstore/pkg/signature"

	"github.com/quavon/quavon/runner/image/signature"
)

// signer makes a key and signs claims with it, with SHA-256 as cosign does.
type signer struct {
	public []byte
	sig.Signer
}

func newSigner(t testing.TB, private crypto.Signer) signer {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	must(t, err)
	s, err := sig.LoadSigner(private, crypto.SHA256)
	must(t, err)
	return signer{pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), s}
}

func newECDSA(t testing.TB) signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return newSigner(t, k)
}

func (s signer) sign(t testing.TB, d v1.Hash) *signature.Bundle {
	t.Helper()
	raw, err := s.SignMessage(strings.NewReader(string(claim(d))))
	must(t, err)
	return &signature.Bundle{Version: 1, Digest: d, Simple: &signature.Simple{
		Payload: claim(d), Annotations: map[string]string{static.SignatureAnnotationKey: base64.StdEncoding.EncodeToString(raw)},
	}}
}

func keys(t testing.TB, signers ...signer) []signature.Key {
	t.Helper()
	var raw []byte
	for _, s := range signers {
		raw = append(raw, s.public...)
	}
	all, err := signature.ParseKeys(raw)
	must(t, err)
	return all
}

func TestKindsOfKeys(t *testing.T) {
	t.Parallel()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	for name, private := range map[string]crypto.Signer{"ed25519": ed, "rsa": rsaKey, "p384": p384} {
		s, app := newSigner(t, private), hash(t, "a")
		p := &signature.Policy{Keys: keys(t, newECDSA(t), s)}
		met, err := s.sign(t, app).Verify(t.Context(), p)
		if err != nil || met.Key != p.Keys[1].Fingerprint {
			t.Errorf("%s: %v, %v", name, met, err)
		}
	}
}

func TestByKey(t *testing.T) {
	t.Parallel()
	s, app := newECDSA(t), hash(t, "a")
	for name, c := range map[string]struct {
		change func(b *signature.Bundle)
		want   string
	}{
		"good":            {func(*signature.Bundle) {}, ""},
		"another digest":  {func(b *signature.Bundle) { b.Digest = hash(t, "b") }, "digest"},
		"tampered":        {func(b *signature.Bundle) { b.Simple.Payload = claim(hash(t, "b")) }, "signature"},
		"both changed":    {func(b *signature.Bundle) { b.Digest = hash(t, "b"); b.Simple.Payload = claim(b.Digest) }, "signature"},
		"no signature":    {func(b *signature.Bundle) { b.Simple.Annotations = nil }, "ecdsa|signature"},
		"a bad signature": {func(b *signature.Bundle) { b.Simple.Annotations[static.SignatureAnnotationKey] = "AAAA" }, "ecdsa|signature"},
		"not base64":      {func(b *signature.Bundle) { b.Simple.Annotations[static.SignatureAnnotationKey] = "!" }, "base64"},
		"a bad certificate": {func(b *signature.Bundle) {
			b.Simple.Annotations[static.CertificateAnnotationKey] = "nothing"
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.sign(t, app)
			c.change(b)
			_, err := b.Verify(t.Context(), &signature.Policy{Keys: keys(t, s)})
			checkErr(t, err, c.want)
		})
	}
	_, err := s.sign(t, app).Verify(t.Context(), &signature.Policy{Keys: keys(t, newECDSA(t))})
	checkErr(t, err, "signature")
}

func TestKeysRefused(t *testing.T) {
	t.Parallel()
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil { // this Go makes none: take it as refused
		weak = nil
	}
	good := string(newECDSA(t).public)
	for name, c := range map[string]struct{ raw, want string }{
		"empty":       {"", "no key"},
		"text":        {"hello", "not pem"},
		"private":     {"-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n", "private key"},
		"more behind": {good + "x", "not pem"},
		"too many":    {strings.Repeat(good, 17), "more than 16"},
		"cut short":   {good[:80], "not pem"},
	} {
		_, err := signature.ParseKeys([]byte(c.raw))
		checkErr(t, err, c.want)
		_ = name
	}
	if weak != nil {
		_, err = signature.NewKey(weak.Public())
		checkErr(t, err, "weak")
	}
}

// TestStored: a stored bundle is worth what the lock says of it.
func TestStored(t *testing.T) {
	t.Parallel()
	s, app := newECDSA(t), hash(t, "a")
	p := &signature.Policy{Keys: keys(t, newECDSA(t), s)}
	b, met, err := p.Find(t.Context(), []*signature.Bundle{newECDSA(t).sign(t, app), s.sign(t, app)})
	must(t, err)
	dir := t.TempDir()
	digest, err := b.Write(dir)
	must(t, err)
	stored, err := signature.Read(dir, digest)
	must(t, err)
	good := signature.Wanted{Met: met, Digests: []v1.Hash{hash(t, "c"), app}}
	checkErr(t, stored.Check(t.Context(), good), "")

	another := good
	another.Key = keys(t, newECDSA(t))[0].Fingerprint
	checkErr(t, stored.Check(t.Context(), another), "another key")
	another = good
	another.Digests = []v1.Hash{hash(t, "b")}
	checkErr(t, stored.Check(t.Context(), another), "isn't this image")
	another = good
	another.Met = signature.Met{Issuer: issuer, Identity: who}
	checkErr(t, stored.Check(t.Context(), another), "another trusted root")
	if _, err := signature.Read(dir, hash(t, "a").String()); err == nil {
		t.Error("read what isn't there")
	}
}

func TestStoredByIdentity(t *testing.T) {
	t.Parallel()
	a, app := newAuthority(t), hash(t, "a")
	p := &signature.Policy{Issuer: issuer, IdentityPattern: ".*@example", TrustedRoot: a.root(false)}
	b := a.simple(who, issuer, claim(app), soon())
	b.Digest = app
	b, met, err := p.Find(t.Context(), []*signature.Bundle{b})
	must(t, err)
	raw, digest, err := b.Encode()
	must(t, err)
	stored, err := signature.ParseBundle(raw, digest)
	must(t, err)
	sum := signature.Digest(p.TrustedRoot)
	checkErr(t, stored.Check(t.Context(), signature.Wanted{Met: met, TrustedRoot: sum, Digests: []v1.Hash{app}}), "")
	checkErr(t, stored.Check(t.Context(), signature.Wanted{Met: met, TrustedRoot: digest, Digests: []v1.Hash{app}}), "another trusted root")
	met.Identity = "other@example"
	checkErr(t, stored.Check(t.Context(), signature.Wanted{Met: met, TrustedRoot: sum, Digests: []v1.Hash{app}}), "identit")
	if _, err := signature.ParseBundle(append(raw, ' '), digest); err == nil {
		t.Error("a changed bundle was read")
	}
}

// BenchmarkCheck is what each start of a job in a signed image pays.
func BenchmarkCheck(b *testing.B) {
	s, a, app := newECDSA(b), newAuthority(b), hash(b, "a")
	byKey := &signature.Policy{Keys: keys(b, s)}
	byIdentity := &signature.Policy{Issuer: issuer, Identity: who, TrustedRoot: a.root(false)}
	identity := a.simple(who, issuer, claim(app), soon())
	identity.Digest = app
	for name, c := range map[string]struct {
		policy *signature.Policy
		found  *signature.Bundle
	}{"key": {byKey, s.sign(b, app)}, "identity": {byIdentity, identity}} {
		stored, met, err := c.policy.Find(b.Context(), []*signature.Bundle{c.found})
		must(b, err)
		w := signature.Wanted{Met: met, TrustedRoot: signature.Digest(stored.TrustedRoot), Digests: []v1.Hash{app}}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				must(b, stored.Check(b.Context(), w))
			}
		})
	}
}
