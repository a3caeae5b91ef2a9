package image_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	sig "github.com/sigstore/sigstore/pkg/signature"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/job"
)

// signedBy signs a digest with a new key.
func signedBy(t *testing.T, digest v1.Hash) (*signature.Bundle, *lock.Signature) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	s, err := sig.LoadSigner(private, crypto.SHA256)
	must(t, err)
	key, err := signature.NewKey(private.Public())
	must(t, err)
	claim := `{"critical":{"image":{"docker-manifest-digest":"` + digest.String() + `"},"type":"cosign container image signature"}}`
	raw, err := s.SignMessage(strings.NewReader(claim))
	must(t, err)
	b := &signature.Bundle{Digest: digest, Simple: &signature.Simple{
		Payload:     []byte(claim),
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(raw)},
	}}
	b, met, err := (&signature.Policy{Keys: []signature.Key{key}}).Find(t.Context(), []*signature.Bundle{b})
	must(t, err)
	_, sum, err := b.Encode()
	must(t, err)
	return b, &lock.Signature{Key: met.Key, Bundle: sum}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSigned(t *testing.T) {
	t.Parallel()
	ref := it.Push(t, it.Registry(t), app(t, v1.Config{}, "signed"))
	for name, c := range map[string]struct {
		// change what is right before the image is opened.
		change func(t *testing.T, s *image.Store, r *image.Record, img *lock.Image, b *signature.Bundle)
		want   string
	}{
		"good": {func(*testing.T, *image.Store, *image.Record, *lock.Image, *signature.Bundle) {}, ""},
		"beside the lock": {func(t *testing.T, s *image.Store, r *image.Record, img *lock.Image, b *signature.Bundle) {
			dir := t.TempDir()
			_, err := b.Write(dir)
			must(t, err)
			must(t, os.RemoveAll(s.Path(signature.Dir)))
			s.Require(&lock.File{Images: []lock.Image{*img}}, dir)
		}, ""},
		"missing": {func(t *testing.T, s *image.Store, _ *image.Record, _ *lock.Image, _ *signature.Bundle) {
			must(t, os.RemoveAll(s.Path(signature.Dir)))
		}, "its signature isn't here"},
		"tampered": {func(t *testing.T, s *image.Store, _ *image.Record, img *lock.Image, _ *signature.Bundle) {
			path := filepath.Join(s.Path(signature.Dir), strings.TrimPrefix(img.Platforms[0].Signature.Bundle, "sha256:")+".json")
			must(t, os.WriteFile(path, []byte("{}"), 0o600))
		}, "the bundle has the digest"},
		"another key": {func(t *testing.T, s *image.Store, r *image.Record, img *lock.Image, _ *signature.Bundle) {
			other, want := signedBy(t, r.Config)
			_, err := s.AddBundle(other)
			must(t, err)
			img.Platforms[0].Signature.Bundle = want.Bundle
		}, "another key than the lock names"},
		"of another image": {func(t *testing.T, s *image.Store, _ *image.Record, img *lock.Image, _ *signature.Bundle) {
			h, _, err := v1.SHA256(strings.NewReader("x"))
			must(t, err)
			other, want := signedBy(t, h)
			_, err = s.AddBundle(other)
			must(t, err)
			img.Platforms[0].Signature = want
		}, "which isn't this image"},
		"come another way": {func(t *testing.T, s *image.Store, _ *image.Record, img *lock.Image, _ *signature.Bundle) {
			h, _, err := v1.SHA256(strings.NewReader("an index that was never read"))
			must(t, err)
			other, want := signedBy(t, h)
			_, err = s.AddBundle(other)
			must(t, err)
			img.Index, img.Platforms[0].Signature = h.String(), want
		}, "came here another way"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			src, err := source.Registry(t.Context(), ref, source.Host(), source.RegistryOptions{})
			must(t, err)
			r, _, err := s.Import(t.Context(), src, image.ImportOptions{Name: "here"})
			must(t, err)
			must(t, src.Close())
			b, want := signedBy(t, src.Manifest)
			_, err = s.AddBundle(b)
			must(t, err)
			l := &lock.File{Images: []lock.Image{{Name: "app", Platforms: []lock.Platform{
				{Platform: "linux/amd64", Manifest: src.Manifest.String(), Config: r.Config.String(), Signature: want},
			}}}}
			s.Require(l, "")
			c.change(t, s, r, &l.Images[0], b)
			// Another name for it, or none, is no way around.
			for _, as := range []string{"here", r.Config.String(), src.Manifest.String()} {
				root, err := s.Open(t.Context(), as)
				if err == nil {
					err = root.Close()
				}
				checkSigned(t, err, c.want)
			}
			checkSigned(t, s.Verify(t.Context(), r, false), c.want)
		})
	}
}

// TestRequireAgain: a runner reads its lock again while jobs open images.
func TestRequireAgain(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r, _, err := s.Import(t.Context(), openLayout(t, app(t, v1.Config{}, "again")), image.ImportOptions{})
	must(t, err)
	_, want := signedBy(t, r.Config) // its bundle is nowhere
	l := &lock.File{Images: []lock.Image{{Name: "app", Platforms: []lock.Platform{{Config: r.Config.String(), Signature: want}}}}}
	s.Require(l, "")
	var jobs sync.WaitGroup
	for range 4 {
		jobs.Go(func() {
			for range 50 {
				_, err := s.Open(t.Context(), r.Config.String())
				checkSigned(t, err, "its signature isn't here")
			}
		})
	}
	for range 200 {
		s.Require(l, "")
	}
	jobs.Wait()
}

func checkSigned(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "":
		must(t, err)
	case err == nil || !strings.Contains(err.Error(), want):
		t.Errorf("%q isn't in %v", want, err)
	case fault.Code(err) != string(job.ReasonRejected) || !strings.Contains(fault.Hint(err), "images pull"):
		t.Errorf("code %q, hint %q", fault.Code(err), fault.Hint(err))
	}
}

// TestCollectSignatures: a signature goes with its image.
func TestCollectSignatures(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r, _, err := s.Import(t.Context(), openLayout(t, app(t, v1.Config{}, "collected")), image.ImportOptions{})
	must(t, err)
	b, want := signedBy(t, r.Config)
	_, err = s.AddBundle(b)
	must(t, err)
	_, err = s.Collect(t.Context(), func(*image.Record) bool { return true })
	must(t, err)
	if _, err := s.Bundle(want.Bundle); err != nil {
		t.Errorf("gone while its image is there: %v", err)
	}
	l := &lock.File{Images: []lock.Image{{Name: "app", Platforms: []lock.Platform{{Config: r.Config.String(), Signature: want}}}}}
	for _, c := range []struct {
		lock *lock.File
		gone bool
	}{{l, false}, {nil, true}} {
		s.Require(c.lock, "")
		_, err = s.Collect(t.Context(), func(*image.Record) bool { return false })
		must(t, err)
		if _, err := s.Bundle(want.Bundle); (err != nil) != c.gone {
			t.Errorf("after the image: %v, to be gone: %v", err, c.gone)
		}
	}
}

// TestBases: what a base had to be signed by is verified again, beside the lock.
func TestBases(t *testing.T) {
	t.Parallel()
	s, dir := newStore(t), t.TempDir()
	r, _, err := s.Import(t.Context(), openLayout(t, app(t, v1.Config{}, "built")), image.ImportOptions{})
	must(t, err)
	base, _, err := v1.SHA256(strings.NewReader("base"))
	must(t, err)
	b, want := signedBy(t, base)
	signed := lock.BaseSignature{Base: base.String(), Signature: *want}
	l := &lock.File{Images: []lock.Image{{Name: "app", Platforms: []lock.Platform{
		{Config: r.Config.String(), Base: []string{base.String()}, BaseSignatures: []lock.BaseSignature{signed}},
	}}}}
	s.Require(l, dir)
	if err := s.Verify(t.Context(), r, false); err == nil || !strings.Contains(err.Error(), "its signature isn't here") {
		t.Errorf("without the bundle: %v", err)
	}
	_, err = b.Write(dir)
	must(t, err)
	must(t, s.Verify(t.Context(), r, false))
	l.Images[0].Platforms[0].BaseSignatures[0].Base = r.Config.String()
	if err := s.Verify(t.Context(), r, false); err == nil || !strings.Contains(err.Error(), "which isn't this image") {
		t.Errorf("another base: %v", err)
	}
}
