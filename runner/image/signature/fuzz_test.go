package signature_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/image/layer"
	"github.com/quavon/quavon/runner/image/signature"
)

// FuzzFind takes a layout's index, a manifest and a payload from whoever wrote
// them. Nothing that is found may verify, for the key never signed anything.
func FuzzFind(f *testing.F) {
	key, app := newECDSA(f), hash(f, "a")
	p := &signature.Policy{Keys: keys(f, key)}
	list, err := filepath.Glob(fixtures + "/layout/blobs/sha256/*")
	must(f, err)
	index, err := os.ReadFile(fixtures + "/layout/index.json")
	must(f, err)
	for _, path := range list {
		raw, err := os.ReadFile(path)
		must(f, err)
		f.Add(index, raw, claim(app))
	}
	f.Add([]byte(`{"manifests":[{"annotations":{"kind":"dev.cosignproject.cosign/sigs"},"digest":"MANIFEST"}]}`),
		[]byte(`{"layers":[{"mediaType":"application/vnd.dev.cosign.simplesigning.v1+json","digest":"PAYLOAD","annotations":{"dev.cosignproject.cosign/signature":"AAAA"}}]}`), claim(app))
	f.Add([]byte(`{"manifests":[{"artifactType":"application/vnd.dev.sigstore.bundle.v0.3+json","digest":"MANIFEST"}]}`),
		[]byte(`{"subject":{"digest":"`+app.String()+`"},"layers":[{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","digest":"PAYLOAD"}]}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, index, manifest, payload []byte) {
		dir := t.TempDir()
		blobs := filepath.Join(dir, "blobs/sha256")
		must(t, os.MkdirAll(blobs, 0o700))
		// The digests fit, as a registry's would.
		manifest = []byte(strings.ReplaceAll(string(manifest), "PAYLOAD", layer.Digest(payload).String()))
		index = []byte(strings.ReplaceAll(string(index), "MANIFEST", layer.Digest(manifest).String()))
		must(t, os.WriteFile(filepath.Join(dir, "index.json"), index, 0o600))
		for _, b := range [][]byte{manifest, payload} {
			must(t, os.WriteFile(filepath.Join(blobs, layer.Digest(b).Hex), b, 0o600))
		}
		found, err := signature.Layout(context.Background(), dir, app)
		if err != nil {
			return
		}
		if _, met, err := p.Find(context.Background(), found); err == nil {
			t.Errorf("signed by %v", met)
		}
	})
}

// FuzzVerify checks signatures of an identity, in both formats, that others made up.
func FuzzVerify(f *testing.F) {
	a, app := newAuthority(f), hash(f, "a")
	p := &signature.Policy{Issuer: issuer, Identity: who, TrustedRoot: a.root(false)}
	good := a.simple(who, issuer, claim(app), soon())
	n := good.Simple.Annotations
	const key = "dev.sigstore.cosign/"
	f.Add(good.Simple.Payload, n["dev.cosignproject.cosign/signature"], n[key+"certificate"], n[key+"bundle"], "", []byte("{}"))
	f.Add([]byte("{}"), "", n[key+"certificate"], `{"Payload":{"body":"AAAA"}}`, `{"SignedRFC3161Timestamp":"AAAA"}`,
		a.sigstore(who, issuer, statement(app, cosignPredicate), soon()).Sigstore)
	f.Fuzz(func(t *testing.T, payload []byte, sig, cert, entry, stamp string, sigstore []byte) {
		simple := &signature.Bundle{Version: 1, Digest: hash(t, "b"), Simple: &signature.Simple{Payload: payload, Annotations: map[string]string{
			"dev.cosignproject.cosign/signature": sig, key + "certificate": cert, key + "bundle": entry, key + "rfc3161timestamp": stamp,
		}}}
		for _, b := range []*signature.Bundle{simple, {Version: 1, Digest: hash(t, "b"), Sigstore: sigstore}} {
			if met, err := b.Verify(context.Background(), p); err == nil {
				t.Errorf("signed by %v", met)
			}
		}
	})
}

// FuzzBundle reads stored bundles: what was read is written the same way.
func FuzzBundle(f *testing.F) {
	app := hash(f, "a")
	for _, b := range []*signature.Bundle{newECDSA(f).sign(f, app), {Version: 1, Digest: app, Sigstore: []byte("{}"), TrustedRoot: []byte("{}")}} {
		raw, _, err := b.Encode()
		must(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := signature.ParseBundle(raw, signature.Digest(raw))
		if err != nil {
			return
		}
		written, digest, err := b.Encode()
		must(t, err)
		again, err := signature.ParseBundle(written, digest)
		must(t, err)
		if d := cmp.Diff(b, again); d != "" {
			t.Error(d)
		}
	})
}
