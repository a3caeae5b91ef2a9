package signature_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/image/source"
)

const simpleType = types.MediaType("application/vnd.dev.cosign.simplesigning.v1+json")

// attach puts signatures beside an image, as they are.
func attach(t testing.TB, repo name.Repository, d v1.Hash, signatures ...*signature.Bundle) {
	t.Helper()
	var add []mutate.Addendum
	for _, b := range signatures {
		add = append(add, mutate.Addendum{Layer: static.NewLayer(b.Simple.Payload, simpleType), Annotations: b.Simple.Annotations, MediaType: simpleType})
	}
	img, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), add...)
	must(t, err)
	must(t, remote.Write(repo.Tag("sha256-"+d.Hex+".sig"), img))
}

func pushed(t testing.TB, repo name.Repository) (ref string, d v1.Hash) {
	t.Helper()
	ref = it.Push(t, repo, it.Image(t, v1.Config{}, it.Gzip(t, it.Tar(t, it.File("a", "b")))))
	d, err := v1.NewHash(ref[strings.Index(ref, "@")+1:])
	must(t, err)
	return ref, d
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	s := newECDSA(t)
	p := &signature.Policy{Keys: keys(t, s)}
	huge := func(b *signature.Bundle) *signature.Bundle {
		b.Simple.Payload = append(b.Simple.Payload, bytes.Repeat([]byte(" "), 1<<20)...)
		return b
	}
	for name, c := range map[string]struct {
		attach func(repo name.Repository, d v1.Hash)
		want   string
	}{
		"missing":   {func(name.Repository, v1.Hash) {}, "there is no signature"},
		"good":      {func(r name.Repository, d v1.Hash) { attach(t, r, d, s.sign(t, d)) }, ""},
		"wrong key": {func(r name.Repository, d v1.Hash) { attach(t, r, d, newECDSA(t).sign(t, d)) }, "none of 1 signatures will do"},
		"behind a wrong one": {func(r name.Repository, d v1.Hash) {
			attach(t, r, d, newECDSA(t).sign(t, d), s.sign(t, d))
		}, ""},
		"of another image": {func(r name.Repository, d v1.Hash) { attach(t, r, d, s.sign(t, hash(t, "b"))) }, "digest"},
		"huge":             {func(r name.Repository, d v1.Hash) { attach(t, r, d, huge(s.sign(t, d))) }, "more than 262144 bytes"},
		"behind a huge one": {func(r name.Repository, d v1.Hash) {
			attach(t, r, d, huge(newECDSA(t).sign(t, d)), s.sign(t, d))
		}, ""},
		"behind too many": {func(r name.Repository, d v1.Hash) {
			b := newECDSA(t).sign(t, d)
			all := make([]*signature.Bundle, 64, 65)
			for i := range all {
				all[i] = b
			}
			attach(t, r, d, append(all, s.sign(t, d))...)
		}, "none of 64 signatures will do"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := newRegistry(t)
			ref, d := pushed(t, repo)
			c.attach(repo, d)
			found, err := signature.Registry(t.Context(), ref, source.RegistryOptions{})
			if err == nil {
				_, _, err = p.Find(t.Context(), found)
			}
			checkErr(t, err, c.want)
		})
	}
}

// TestHostileRegistry: one that answers anything.
func TestHostileRegistry(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   string
	}{
		"an endless manifest": {func(w http.ResponseWriter) { _, _ = io.Copy(w, endless{}) }, "more than 4194304 bytes|exceeded|too large|limit"},
		"no manifest":         {func(w http.ResponseWriter) { _, _ = w.Write([]byte("[]")) }, "can't read the signatures"},
		"layers in excess": {func(w http.ResponseWriter) {
			l := `{"mediaType":"` + string(simpleType) + `","size":1,"digest":"sha256:` + strings.Repeat("a", 64) + `"}`
			_, _ = fmt.Fprintf(w, `{"schemaVersion":2,"layers":[%s%s]}`, strings.Repeat(l+",", 9999), l)
		}, "can't read the signatures"},
		"forbidden": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, "can't read the signatures"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			real := registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0)))
			asked := 0
			repo := repositoryAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, ".sig"):
					w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
					c.answer(w)
				case strings.Contains(r.URL.Path, "/blobs/"):
					asked++
					w.WriteHeader(http.StatusNotFound)
				default:
					real.ServeHTTP(w, r)
				}
			}))
			_, err := signature.Registry(t.Context(), repo.Digest(hash(t, "a").String()).String(), source.RegistryOptions{})
			checkErr(t, err, c.want)
			if asked > 64 {
				t.Errorf("asked for %d blobs", asked)
			}
		})
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}
