package imagetest

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/quavon/quavon/runner/image/layer"
)

// Blob is a layer as a registry stores it; it implements v1.Layer.
type Blob struct {
	Type          types.MediaType
	Plain, Packed []byte
}

// Gzip packs a tar.
func Gzip(t testing.TB, plain []byte) Blob {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(plain)
	must(t, err)
	must(t, w.Close())
	return Blob{types.OCILayer, plain, b.Bytes()}
}

// Zstd packs a tar with zstd.
func Zstd(t testing.TB, plain []byte) Blob {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	must(t, err)
	return Blob{types.OCILayerZStd, plain, w.EncodeAll(plain, nil)}
}

// Plain leaves a tar as it is.
func Plain(plain []byte) Blob { return Blob{types.OCIUncompressedLayer, plain, plain} }

// Digest implements v1.Layer.
func (b Blob) Digest() (v1.Hash, error) { return layer.Digest(b.Packed), nil }

// DiffID implements v1.Layer.
func (b Blob) DiffID() (v1.Hash, error) { return layer.Digest(b.Plain), nil }

// Size implements v1.Layer.
func (b Blob) Size() (int64, error) { return int64(len(b.Packed)), nil }

// MediaType implements v1.Layer.
func (b Blob) MediaType() (types.MediaType, error) { return b.Type, nil }

// Compressed implements v1.Layer.
func (b Blob) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b.Packed)), nil
}

// Uncompressed implements v1.Layer.
func (b Blob) Uncompressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b.Plain)), nil
}

// Image makes an OCI image for this platform.
func Image(t testing.TB, c v1.Config, blobs ...Blob) v1.Image {
	t.Helper()
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, b := range blobs {
		var err error
		img, err = mutate.Append(img, mutate.Addendum{Layer: b, MediaType: b.Type})
		must(t, err)
	}
	cf, err := img.ConfigFile()
	must(t, err)
	cf = cf.DeepCopy()
	cf.OS, cf.Architecture, cf.Config = "linux", runtime.GOARCH, c
	img, err = mutate.ConfigFile(img, cf)
	must(t, err)
	return img
}

// Registry is a registry in this process; it returns a repository in it.
func Registry(t testing.TB) name.Repository {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(discardLog())))
	t.Cleanup(s.Close)
	repo, err := name.NewRepository(strings.TrimPrefix(s.URL, "http://") + "/test/app")
	must(t, err)
	return repo
}

// Push stores an image or an index and returns its reference by digest.
func Push(t testing.TB, repo name.Repository, what remote.Taggable) string {
	t.Helper()
	raw, err := what.RawManifest()
	must(t, err)
	ref := repo.Digest(layer.Digest(raw).String())
	switch x := what.(type) {
	case v1.Image:
		must(t, remote.Write(ref, x))
	case v1.ImageIndex:
		must(t, remote.WriteIndex(ref, x))
	}
	return ref.String()
}

// Layout writes images into an OCI layout directory.
func Layout(t testing.TB, images ...v1.Image) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	must(t, err)
	for _, img := range images {
		must(t, p.AppendImage(img))
	}
	return dir
}
