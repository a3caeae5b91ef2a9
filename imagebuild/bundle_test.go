package imagebuild_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/cosign/v2/pkg/cosign"

	"github.com/quavon/quavon/imagebuild"
	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/imagebuild/engine/enginetest"
	"github.com/quavon/quavon/imagebuild/sign"
	"github.com/quavon/quavon/runner/bundle"
	"github.com/quavon/quavon/runner/disk"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

// signing signs what is built, and keeps it beside the lock.
type signing struct {
	by  *sign.Signer
	dir string
}

func (s *signing) Verify(context.Context, string, string, *declare.Policy) (*lock.Signature, error) {
	return nil, errors.New("nothing is declared as signed")
}
func (s *signing) Signer() string { return s.by.Key.Fingerprint }
func (s *signing) Sign(ctx context.Context, name string, config v1.Hash) (*lock.Signature, error) {
	b, err := s.by.Sign(ctx, "quavon/"+name, config)
	if err != nil {
		return nil, err
	}
	digest, err := b.Write(s.dir)
	return &lock.Signature{Key: s.by.Key.Fingerprint, Bundle: digest}, err
}

func newSigner(t *testing.T) *sign.Signer {
	t.Helper()
	pair, err := cosign.GenerateKeyPair(func(bool) ([]byte, error) { return []byte("word"), nil })
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, pair.PrivateBytes, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := sign.Open(path, sign.Options{Password: "word"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// packed builds the project, signed, and packs it.
type packed struct {
	*project
	signer *sign.Signer
	path   string
	// bare is the address of an engine that built nothing.
	bare string
}

func newPacked(t *testing.T, host, bare string) *packed {
	t.Helper()
	p := &packed{project: newProject(t, host), signer: newSigner(t), bare: bare}
	p.set = func(b *imagebuild.Builder) { b.Signatures = &signing{p.signer, filepath.Join(p.dir, signature.Dir)} }
	p.run(false)
	p.path = p.pack("b.tar")
	return p
}

func (p *packed) packer() *imagebuild.Packer {
	static := sandboxtest.Guest(p.t) // any program will do
	pack := &imagebuild.Packer{
		Lock: p.lockFile(), Store: p.store, Version: "test",
		Connect:  func(ctx context.Context) (*engine.Engine, error) { return engine.Connect(ctx, p.host) },
		Programs: map[string]imagebuild.Programs{source.Host().Architecture: {Quavon: static, Guest: static, Runsc: static}},
		Sign: func(ctx context.Context, d v1.Hash) (*signature.Bundle, error) {
			return p.signer.Sign(ctx, bundle.Reference, d)
		},
	}
	p.t.Cleanup(func() { _ = pack.Close() })
	return pack
}

func (p *packed) pack(name string) string {
	p.t.Helper()
	path := filepath.Join(p.t.TempDir(), name)
	if _, err := p.packer().Pack(p.t.Context(), path); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func (p *packed) open(path string) *bundle.Bundle {
	p.t.Helper()
	b, err := bundle.Open(p.t.Context(), path, bundle.Trust{Keys: []string{p.signer.Key.Fingerprint}})
	if err == nil {
		p.t.Cleanup(func() { _ = b.Close() })
		err = b.Verify(p.t.Context(), nil)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

// elsewhere is another host: a store without an image, an engine that built none.
type elsewhere struct {
	*packed
	dir   string
	host  string
	store *image.Store
}

func (p *packed) elsewhere() *elsewhere {
	p.t.Helper()
	store, err := image.OpenStore(p.t.TempDir())
	if err != nil {
		p.t.Fatal(err)
	}
	return &elsewhere{p, p.t.TempDir(), p.bare, store}
}

func (e *elsewhere) unpacker(b *bundle.Bundle) *imagebuild.Unpacker {
	u := &imagebuild.Unpacker{
		Bundle: b, Lock: filepath.Join(e.dir, lock.DefaultName), Store: e.store,
		Connect: func(ctx context.Context) (*engine.Engine, error) { return engine.Connect(ctx, e.host) },
	}
	e.t.Cleanup(func() { _ = u.Close() })
	return u
}

// nothing must have been installed.
func (e *elsewhere) nothing() {
	e.t.Helper()
	if _, err := os.Stat(filepath.Join(e.dir, lock.DefaultName)); !errors.Is(err, os.ErrNotExist) {
		e.t.Errorf("there is a lock: %v", err)
	}
	if left, err := os.ReadDir(e.store.Scratch()); err != nil || len(left) > 0 {
		e.t.Errorf("left behind: %v %v", left, err)
	}
}

func TestBundle(t *testing.T) {
	t.Parallel()
	host, bare := enginetest.Start(t), enginetest.Start(t)
	// Before the others bring images to the bare engine.
	t.Run("not here", func(t *testing.T) { notHere(t, newPacked(t, host, bare)) })
	for name, test := range map[string]func(*testing.T, *packed){
		"there and back": thereAndBack, "same": sameBundle, "damaged": damagedBundle, "other lock": otherLock,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newPacked(t, host, bare))
		})
	}
}

// thereAndBack brings images by digest to a host that has only the bundle, and finds
// them there as the lock says, signatures and file systems too.
func thereAndBack(t *testing.T, p *packed) {
	e := p.elsewhere()
	u := e.unpacker(p.open(p.path))
	if why, err := u.Stale(t.Context()); err != nil || len(why) != 3 {
		t.Errorf("before: %q %v", why, err)
	}
	r, err := u.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Made != 2 || !r.Changed {
		t.Errorf("made %d, changed %v", r.Made, r.Changed)
	}
	got, err := os.ReadFile(u.Lock)
	if d := cmp.Diff(p.read(lock.DefaultName), string(got)); d != "" || err != nil {
		t.Error(d, err)
	}
	e.store.Require(r.After, filepath.Join(e.dir, signature.Dir))
	v := &imagebuild.Verifier{Store: e.store, Dir: e.dir, Connect: u.Connect}
	defer v.Close()
	docker, err := u.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer docker.Close()
	for i := range r.After.Images {
		img, at := r.After.Find(r.After.Images[i].Name, source.Host())
		record, err := e.store.Find(img.Name)
		if errs := v.Image(t.Context(), img, at); len(errs) > 0 || err != nil {
			t.Errorf("%s: %v %v", img.Name, errs, err)
			continue
		}
		if err := e.store.Verify(t.Context(), record, true); err != nil {
			t.Error(err)
		}
		if _, err := imagebuild.InEngine(t.Context(), docker, img, at); err != nil {
			t.Errorf("the engine: %s: %v", img.Name, err)
		}
	}
	if why, err := u.Stale(t.Context()); err != nil || why != nil {
		t.Errorf("after: %q %v", why, err)
	}
	if r, err := u.Run(t.Context()); err != nil || r.Made != 0 || r.Changed {
		t.Errorf("again: %+v %v", r, err)
	}
}

// sameBundle: the same inputs give the same bytes, and a layout that others can read.
func sameBundle(t *testing.T, p *packed) {
	one, err1 := disk.Sum(p.path)
	two, err2 := disk.Sum(p.pack("c.tar"))
	if err := errors.Join(err1, err2); err != nil || one != two {
		t.Errorf("%s, then %s: %v", one, two, err)
	}
	l, err := lock.Read(p.lockFile())
	if err != nil {
		t.Fatal(err)
	}
	_, at := l.Find("brought", source.Host())
	img, err := source.File(t.Context(), p.path, source.Select{Name: "brought", Platform: source.Host()}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	if img.Manifest.String() != at.Manifest || img.Config.String() != at.Config {
		t.Errorf("the layout has %s %s", img.Manifest, img.Config)
	}
	r, err := img.Layers[0].Open(t.Context(), func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Error(err)
	}
}

// damagedBundle: content that changed after the bundle was looked at is found when it is
// read, and nothing comes of it.
func damagedBundle(t *testing.T, p *packed) {
	e := p.elsewhere()
	b := p.open(p.path)
	_, at := b.Lock.Find("brought", source.Host())
	raw, err := os.ReadFile(p.path)
	if err != nil {
		t.Fatal(err)
	}
	name := bundle.Blob(at.Layers[0].Digest)
	where := strings.Index(string(raw), name+"\x00") + 512 + 100
	f, err := os.OpenFile(p.path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{raw[where] ^ 1}, int64(where)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := e.unpacker(b).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "can't take the image brought") {
		t.Errorf("%v", err)
	}
	e.nothing()
}

// notHere: images of the lock that the engine doesn't have are missed.
func notHere(t *testing.T, p *packed) {
	lost := p.packer()
	lost.Connect = p.elsewhere().unpacker(nil).Connect
	if _, err := lost.Pack(t.Context(), filepath.Join(p.dir, "lost.tar")); err == nil || !strings.Contains(err.Error(), "it isn't here") {
		t.Errorf("packed what the engine doesn't have: %v", err)
	}
}

// otherLock: a lock that asks for a signature that the bundle's image doesn't have.
func otherLock(t *testing.T, p *packed) {
	other := newSigner(t)
	l, err := lock.Read(p.lockFile())
	if err != nil {
		t.Fatal(err)
	}
	_, at := l.Find("tools", source.Host())
	b, err := other.Sign(t.Context(), "quavon/tools", v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)})
	if err != nil {
		t.Fatal(err)
	}
	digest, err := b.Write(filepath.Join(p.dir, signature.Dir))
	if err != nil {
		t.Fatal(err)
	}
	at.Signature = &lock.Signature{Key: other.Key.Fingerprint, Bundle: digest}
	raw, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	p.write(lock.DefaultName, string(raw))
	path := p.pack("other.tar")
	e := p.elsewhere()
	if _, err := e.unpacker(p.open(path)).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "not signed as the lock says") {
		t.Errorf("%v", err)
	}
	e.nothing()
	nobody := p.packer()
	nobody.Programs = nil
	if _, err := nobody.Pack(t.Context(), path); err == nil || !strings.Contains(err.Error(), "there are no programs for") {
		t.Errorf("packed without programs: %v", err)
	}
}
