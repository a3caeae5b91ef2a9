//go:build fixtures

package signature_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	it "github.com/quavon/quavon/runner/image/imagetest"
)

// cosign runs the real program.
func cosign(t testing.TB, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Getenv("QUAVON_TEST_COSIGN"), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "COSIGN_PASSWORD=correct horse", "HOME="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cosign %v: %v\n%s", args, err, out)
	}
}

// TestMakeFixtures signs with the cosign program that QUAVON_TEST_COSIGN names. It is
// built only with -tags fixtures: what it makes is committed, so that other tests need
// neither the program nor its build.
func TestMakeFixtures(t *testing.T) {
	must(t, os.RemoveAll(fixtures))
	must(t, os.MkdirAll(fixtures, 0o755))
	keyDir := t.TempDir()
	cosign(t, keyDir, "generate-key-pair")
	key, pub := filepath.Join(keyDir, "cosign.key"), filepath.Join(keyDir, "cosign.pub")
	raw, err := os.ReadFile(pub)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(fixtures, "cosign.pub"), raw, 0o600))
	repo := newRegistry(t)
	ref := it.Push(t, repo, it.Image(t, v1.Config{Cmd: []string{"true"}}, it.Gzip(t, it.Tar(t, it.File("a", "b")))))
	cosign(t, ".", "sign", "-y", "--key", key, "--tlog-upload=false", ref)
	cosign(t, ".", "verify", "--key", pub, "--insecure-ignore-tlog=true", ref)
	cosign(t, ".", "sign", "-y", "--key", key, "--tlog-upload=false", "--new-bundle-format", ref)
	saved, err := filepath.Abs(filepath.Join(fixtures, "layout"))
	must(t, err)
	cosign(t, ".", "save", "--dir", saved, ref)

	at, err := name.NewDigest(ref)
	must(t, err)
	ix, err := remote.Referrers(at)
	must(t, err)
	list, err := ix.IndexManifest()
	must(t, err)
	dir, err := layout.FromPath(saved)
	must(t, err)
	for _, d := range list.Manifests {
		img, err := remote.Image(repo.Digest(d.Digest.String()))
		must(t, err)
		must(t, dir.AppendImage(img))
	}
}
