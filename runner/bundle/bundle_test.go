package bundle_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/bundle"
	"github.com/quavon/quavon/runner/image/signature"
)

// files are the members of a small bundle.
type files map[string]string

func (f files) Open(name string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(f[name])), nil
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

const platform = "linux/amd64"

// small is a bundle of one image, whose content nobody looks at here.
func small() (*bundle.Manifest, files) {
	index, config := "the manifest of an image", "its config"
	f := files{
		bundle.LockName: fmt.Sprintf(`{"schemaVersion":1,"builder":{"version":"v1","format":1},"images":[{"name":"box","source":"docker-daemon","ref":"quavon/box",`+
			`"platforms":[{"platform":"linux/amd64","config":"sha256:%s"},{"platform":"linux/arm64","config":"sha256:%[1]s"}]}]}`+"\n", sum(config)),
		bundle.LayoutName: "layout", bundle.IndexName: "index",
		bundle.Blob(sum(index)): index, bundle.Blob(sum(config)): config,
		"bin/linux-amd64/quavon": "q", "bin/linux-amd64/quavon-guest": "", "bin/linux-amd64/runsc": strings.Repeat("r", 512),
		"bin/linux-amd64/gvisor-bin/helper": "h", "templates/compose.yaml": strings.Repeat("t", 513),
	}
	m := &bundle.Manifest{
		MediaType: bundle.MediaType, Version: "v1", Platforms: []string{platform},
		Images: []bundle.Image{{Name: "box", Platform: platform, Digest: "sha256:" + sum(index), Config: "sha256:" + sum(config)}},
	}
	return f.into(m), f
}

func (f files) into(m *bundle.Manifest) *bundle.Manifest {
	m.Members = nil
	for name, text := range f {
		m.Members = append(m.Members, bundle.Member{Name: name, Size: int64(len(text)), SHA256: sum(text)})
	}
	m.Sort()
	return m
}

// signer signs as imagebuild/sign does, under a name.
type signer struct {
	private *ecdsa.PrivateKey
	key     signature.Key
	name    string
}

func newSigner(t testing.TB) *signer {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := signature.NewKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return &signer{private, key, bundle.Reference}
}

func (s *signer) sign(ctx context.Context, d v1.Hash) (*signature.Bundle, error) {
	claim := fmt.Sprintf(`{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, s.name, d)
	h := sha256.Sum256([]byte(claim))
	raw, err := ecdsa.SignASN1(rand.Reader, s.private, h[:])
	if err != nil {
		return nil, err
	}
	b := &signature.Bundle{Digest: d, Simple: &signature.Simple{
		Payload: []byte(claim), Annotations: map[string]string{static.SignatureAnnotationKey: base64.StdEncoding.EncodeToString(raw)},
	}}
	b, _, err = (&signature.Policy{Keys: []signature.Key{s.key}}).Find(ctx, []*signature.Bundle{b})
	return b, err
}

func (s *signer) trust() bundle.Trust { return bundle.Trust{Keys: []string{s.key.Fingerprint}} }

func write(t testing.TB, m *bundle.Manifest, f files, sign bundle.Sign) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "b.tar")
	if err := bundle.Write(t.Context(), path, m, f, sign); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	m, f := small()
	s := newSigner(t)
	path := write(t, m, f, s.sign)
	b, err := bundle.Open(t.Context(), path, s.trust())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	last := int64(0)
	if err := b.Verify(t.Context(), func(done, total int64) { last = total - done }); err != nil {
		t.Fatal(err)
	}
	if last < 1024 || last > 1024+511 {
		t.Errorf("%d bytes were not counted, the end has 1024", last)
	}
	if b.Signer != s.key.Fingerprint || len(b.Lock.Images) != 1 {
		t.Errorf("signed by %q, %d images", b.Signer, len(b.Lock.Images))
	}
	for name, want := range f {
		if got, err := b.ReadFile(name, 1<<20); err != nil || string(got) != want {
			t.Errorf("%s is %q: %v", name, got, err)
		}
	}
	if _, err := b.Open("nothing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what isn't there: %v", err)
	}
}

// TestExtract: what tar makes of a bundle and what Extract does is the same.
func TestExtract(t *testing.T) {
	t.Parallel()
	m, f := small()
	path := write(t, m, f, nil)
	b, err := bundle.Open(t.Context(), path, bundle.Trust{Unsigned: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	if err := b.Extract(t.Context(), bundle.Bin(platform), ours); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(theirs, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("tar", "-xf", path, "-C", theirs, "--strip-components=2", "bin/linux-amd64").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v %s", err, out)
	}
	if out, err := exec.Command("diff", "-r", ours, theirs).CombinedOutput(); err != nil {
		t.Errorf("%v %s", err, out)
	}
	for _, dir := range []string{ours, theirs} {
		if info, err := os.Stat(filepath.Join(dir, "gvisor-bin/helper")); err != nil || info.Mode() != 0o755 {
			t.Error(info, err)
		}
	}
	if err := b.Extract(t.Context(), bundle.Bin(platform), ours); err == nil {
		t.Error("it was unpacked over what was there")
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".bundle-*")); err != nil || left != nil {
		t.Error(left, err)
	}
}

// TestSame: the bytes are those of a tar, and always the same ones. A change here makes
// bundles that other versions can't read.
func TestSame(t *testing.T) {
	t.Parallel()
	m, f := small()
	one, err := os.ReadFile(write(t, m, f, nil))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sum(string(one)), "b73b6a518b75cd3d219523fdb58c94445416672ed9b6d5442e18b17f18405e11"; got != want {
		t.Errorf("the bundle's sha256 is %s, not %s", got, want)
	}
	r := tar.NewReader(bytes.NewReader(one))
	for n := 0; ; n++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			if n != len(f)+1 {
				t.Errorf("%d members", n)
			}
			break
		}
		if err != nil || h.Typeflag != tar.TypeReg || h.Uid != 0 || h.ModTime.Unix() != 0 {
			t.Fatal(h, err)
		}
	}
}

func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	m, f := small()
	dir := t.TempDir()
	f[bundle.IndexName] = "other"
	err := bundle.Write(t.Context(), filepath.Join(dir, "b.tar"), m, f, nil)
	if err == nil || !strings.Contains(err.Error(), "it changed while") {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Error("left:", left, err)
	}
}

func TestNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "no regular file", dir: "no regular file", filepath.Join(dir, "none"): "no such file"} {
		if _, err := bundle.Open(t.Context(), path, bundle.Trust{Unsigned: true}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
