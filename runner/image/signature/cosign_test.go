package signature_test

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/image/source"
)

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
