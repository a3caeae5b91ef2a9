package signature_test

import (
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/image/source"
)

var update = flag.Bool("update", false, "let the cosign program that $QUAVON_TEST_COSIGN names make testdata anew")

const fixtures = "testdata/cosign"

// newRegistry is an empty registry in this process, which also lists referrers.
func newRegistry(t testing.TB) name.Repository {
	t.Helper()
	return repositoryAt(t, registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
}

func repositoryAt(t testing.TB, h http.Handler) name.Repository {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	repo, err := name.NewRepository(strings.TrimPrefix(s.URL, "http://") + "/team/app")
	must(t, err)
	return repo
}

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

// TestMakeFixtures signs with the cosign program. It runs when asked to: what it
// makes is committed, so that other tests need neither the program nor its build.
func TestMakeFixtures(t *testing.T) {
	if !*update {
		t.Skip("only with -update and $QUAVON_TEST_COSIGN")
	}
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

// fixture pushes what the cosign program made into a registry, and returns the
// image's reference and its key.
func fixture(t testing.TB, repo name.Repository) (ref string, digest v1.Hash, p *signature.Policy) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(fixtures, "cosign.pub"))
	must(t, err)
	keys, err := signature.ParseKeys(raw)
	must(t, err)
	dir, err := layout.FromPath(filepath.Join(fixtures, "layout"))
	must(t, err)
	ix, err := dir.ImageIndex()
	must(t, err)
	list, err := ix.IndexManifest()
	must(t, err)
	digest = list.Manifests[0].Digest
	for i, d := range list.Manifests {
		img, err := ix.Image(d.Digest)
		must(t, err)
		var to name.Reference = repo.Digest(d.Digest.String())
		if i == 1 {
			to = repo.Tag("sha256-" + digest.Hex + ".sig")
		}
		must(t, remote.Write(to, img))
	}
	return repo.Digest(digest.String()).String(), digest, &signature.Policy{Keys: keys}
}

func TestCosign(t *testing.T) {
	t.Parallel()
	ref, digest, p := fixture(t, newRegistry(t))
	remote, err := signature.Registry(t.Context(), ref, source.RegistryOptions{})
	must(t, err)
	local, err := signature.Layout(t.Context(), filepath.Join(fixtures, "layout"), digest)
	must(t, err)
	for where, found := range map[string][]*signature.Bundle{"registry": remote, "layout": local} {
		if len(found) != 2 || found[0].Simple == nil || found[1].Sigstore == nil {
			t.Fatalf("%s: found %d signatures, not one of each format", where, len(found))
		}
		for _, b := range found {
			if _, err := b.Verify(t.Context(), p); err != nil {
				t.Errorf("%s: %v", where, err)
			}
			_, err := b.Verify(t.Context(), &signature.Policy{Keys: keys(t, newECDSA(t))})
			checkErr(t, err, "signature")
			moved := *b
			moved.Digest = hash(t, "b")
			_, err = moved.Verify(t.Context(), p)
			checkErr(t, err, "digest")
		}
	}
	none, err := signature.Layout(t.Context(), filepath.Join(fixtures, "layout"), hash(t, "b"))
	must(t, err)
	if _, _, err = p.Find(t.Context(), none); err == nil {
		t.Error("another image's signature was taken")
	}
}

// TestSigstoreTampered changes what a bundle says, keeping its signature.
func TestSigstoreTampered(t *testing.T) {
	t.Parallel()
	_, digest, p := fixture(t, newRegistry(t))
	found, err := signature.Layout(t.Context(), filepath.Join(fixtures, "layout"), digest)
	must(t, err)
	b := found[1]
	var doc map[string]any
	must(t, json.Unmarshal(b.Sigstore, &doc))
	envelope, ok := doc["dsseEnvelope"].(map[string]any)
	if !ok {
		t.Fatalf("no envelope in %s", b.Sigstore)
	}
	envelope["payload"] = statement(hash(t, "b"), cosignPredicate)
	b.Sigstore, err = json.Marshal(doc)
	must(t, err)
	b.Digest = hash(t, "b")
	_, err = b.Verify(t.Context(), p)
	checkErr(t, err, "signature")
}
