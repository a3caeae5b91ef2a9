package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/cosign/v2/pkg/cosign"

	"github.com/quavon/quavon/imagebuild/sign"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/test/need"
)

// testImages makes one image available in every place images come from; scripts
// find it by these variables.
func testImages(t *testing.T) map[string]string {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		need.Skip(t, "busybox-static is missing: %v", err)
	}
	entries := []it.Entry{it.Dir("bin"), {Name: "bin/busybox", Body: string(busybox), Mode: 0o755}}
	for _, applet := range []string{"sh", "cat", "id", "test", "true"} {
		entries = append(entries, it.Link("bin/"+applet, "bin/busybox"))
	}
	entries = append(entries, it.Dir("etc"), it.File("etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/app:/bin/sh\n"),
		it.Dir("root"), it.Entry{Type: '5', Name: "app", Mode: 0o755, UID: 1000, GID: 1000}, it.Entry{Type: '3', Name: "dev/console", Major: 5, Minor: 1})
	img := it.Image(t, v1.Config{
		User: "app", Env: []string{"A=b", "B=d"}, WorkingDir: "/app",
		Entrypoint: []string{"sh", "-c"}, Cmd: []string{"echo command of the image in $(pwd) as $(id -u)"},
	}, it.Gzip(t, it.Tar(t, entries...)))
	repo := it.Registry(t)
	signed, forged := writeSigned(t, repo.String(), img)
	return map[string]string{
		"SIGNED": signed, "FORGED": forged,
		"ARCHIVE": it.DockerArchive(t, img, "box:latest"), "LAYOUT": it.Layout(t, img),
		"PULL": it.Push(t, repo, img), "REPO": repo.String(), "LOCK": writeLock(t, t.TempDir(), repo.String(), img, nil),
	}
}

// writeSigned locks the image with a signature that is beside the lock, and with
// one that isn't.
func writeSigned(t *testing.T, repo string, img v1.Image) (signed, forged string) {
	t.Helper()
	dir := t.TempDir()
	pair, err1 := cosign.GenerateKeyPair(func(bool) ([]byte, error) { return []byte("secret"), nil })
	key := filepath.Join(dir, "key")
	err2 := os.WriteFile(key, pair.PrivateBytes, 0o600)
	signer, err3 := sign.Open(key, sign.Options{Password: "secret"})
	digest, err4 := img.Digest()
	bundle, err5 := signer.Sign(t.Context(), repo, digest)
	sum, err6 := bundle.Write(filepath.Join(dir, signature.Dir))
	for _, err := range []error{err1, err2, err3, err4, err5, err6} {
		if err != nil {
			t.Fatal(err)
		}
	}
	other := "sha256:" + strings.Repeat("0", 64)
	return writeLock(t, dir, repo, img, &lock.Signature{Key: signer.Key.Fingerprint, Bundle: sum}),
		writeLock(t, t.TempDir(), repo, img, &lock.Signature{Key: signer.Key.Fingerprint, Bundle: other})
}

// writeLock locks the image under the name "locked".
func writeLock(t *testing.T, dir, repo string, img v1.Image, signed *lock.Signature) string {
	t.Helper()
	manifest, err1 := img.Manifest()
	digest, err2 := img.Digest()
	layer := manifest.Layers[0]
	c, err3 := img.ConfigFile()
	l := lock.File{SchemaVersion: 1, Builder: lock.Builder{Version: "test", Format: 1}, Images: []lock.Image{{
		Name: "locked", Source: lock.SourceRegistry, Ref: repo, Platforms: []lock.Platform{{
			Platform: source.Host().String(), Manifest: digest.String(), Config: manifest.Config.Digest.String(),
			Signature: signed,
			DiffIDs:   []string{c.RootFS.DiffIDs[0].String()},
			Layers:    []lock.Layer{{Digest: layer.Digest.String(), Size: layer.Size, MediaType: string(layer.MediaType)}},
		}},
	}}}
	raw, err4 := l.Encode()
	path := filepath.Join(dir, "lock")
	for _, err := range []error{err1, err2, err3, err4, os.WriteFile(path, raw, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}
