// Package source finds an image's manifest, config and layers in a registry, an
// OCI layout, a docker-archive or the Docker daemon. Whatever is named by a
// digest is checked against it on the way; layers are checked when they are read.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/image/layer"
)

const (
	// maxDocument bounds an index, a manifest or a config, as registries do.
	maxDocument = 4 << 20
	maxLayers   = 512
	// maxDepth is how deep an index may lie within indexes.
	maxDepth = 3
	// maxFetches bounds the documents looked at on the way to one image.
	maxFetches = 64
)

// Layer is one layer of an image, bottom first. Its digest is empty when only
// the diff ID is known.
type Layer struct {
	v1.Descriptor
	DiffID v1.Hash
	blobs  blobs
}

// Open reads the layer's plain tar; see layer.Reader. progress is told how many
// bytes came from the source.
func (l *Layer) Open(ctx context.Context, progress func(n int)) (*layer.Reader, error) {
	blob, err := l.blobs.open(ctx, l.Descriptor)
	if err != nil {
		return nil, err
	}
	return layer.Open(ctx, &counted{blob, progress}, l.Descriptor, l.DiffID)
}

// Blob is the layer as the source has it. Whoever reads it checks its digest, when
// there is one.
func (l *Layer) Blob(ctx context.Context) (io.ReadCloser, error) {
	return l.blobs.open(ctx, l.Descriptor)
}

type counted struct {
	io.ReadCloser
	progress func(n int)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.progress(n)
	return n, err
}

// Document is an index or a manifest.
type Document struct {
	// Descriptor has what it is, and its digest and size.
	v1.Descriptor
	// Raw is the document as it is hashed.
	Raw []byte
}

// Image is an image whose documents have been read and checked.
type Image struct {
	// Origin is for people: a reference or a path.
	Origin string
	// Index and Manifest are zero where the source has none.
	Index    v1.Hash
	Manifest v1.Hash
	// Config is the digest of the config, the image's identity in all sources.
	Config     v1.Hash
	ConfigFile *v1.ConfigFile
	// RawConfig is the config as it is hashed.
	RawConfig []byte
	// Documents are the indexes on the way and the manifest, outermost first; none
	// where the source has no manifest.
	Documents []Document
	Layers    []Layer
	close     func() error
}

// Close lets go of the source.
func (i *Image) Close() error {
	if i.close == nil {
		return nil
	}
	return i.close()
}

// Select says which image of a source is meant. The zero value means the only
// one, for this platform.
type Select struct {
	// Digest of an index, a manifest or a config.
	Digest v1.Hash
	// Name as an archive has it, such as "app:1.2".
	Name string
	// Platform to choose from an index; the config must agree.
	Platform v1.Platform
}

// ErrNotImage is content that is no container image, such as an attestation.
var ErrNotImage = errors.New("not an image")

// blobs opens content by its descriptor; whoever reads it checks the digest.
type blobs interface {
	open(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error)
}

// BlobFunc opens content by its digest; it need not have been checked.
type BlobFunc func(ctx context.Context, digest v1.Hash) (io.ReadCloser, error)

func (f BlobFunc) open(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	return f(ctx, d.Digest)
}

// Blobs finds the image that begins with a digest, of an index or a manifest, among
// content that is only named by digests.
func Blobs(ctx context.Context, f BlobFunc, digest v1.Hash, p v1.Platform) (*Image, error) {
	return walk(ctx, f, v1.Descriptor{Digest: digest}, p)
}

// document reads and checks a small blob.
func document(ctx context.Context, b blobs, kind string, d v1.Descriptor) ([]byte, error) {
	if d.Size > maxDocument {
		return nil, fmt.Errorf("%s %s has %d bytes, more than %d", kind, d.Digest, d.Size, maxDocument)
	}
	r, err := b.open(ctx, d)
	if err != nil {
		return nil, err
	}
	raw, err := readDocument(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", kind, d.Digest, err)
	}
	if d.Size > 0 && int64(len(raw)) != d.Size {
		want := fmt.Sprintf("%d bytes", d.Size)
		return nil, &layer.DigestError{Kind: kind + " " + d.Digest.String(), Want: want, Got: fmt.Sprint(len(raw))}
	}
	return raw, layer.Check(kind, raw, d.Digest)
}

func readDocument(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err == nil && len(raw) > maxDocument {
		err = fmt.Errorf("more than %d bytes", maxDocument)
	}
	return raw, err
}

// addConfig checks a config and takes what the image needs from it.
func (i *Image) addConfig(raw []byte, p v1.Platform) error {
	i.Config = layer.Digest(raw)
	c, err := parse(raw, v1.ParseConfigFile)
	if err != nil {
		return fmt.Errorf("config %s: %w", i.Config, err)
	}
	i.ConfigFile, i.RawConfig = c, raw
	have := v1.Platform{OS: c.OS, Architecture: c.Architecture, Variant: c.Variant}
	switch {
	case isUnknown(have):
		return fmt.Errorf("%w: its config is for the platform unknown", ErrNotImage)
	case !matches(have, p):
		return &PlatformError{Want: p, Have: []string{have.String()}}
	case c.RootFS.Type != "layers":
		return fmt.Errorf("config %s: rootfs has the type %q", i.Config, c.RootFS.Type)
	case len(c.RootFS.DiffIDs) != len(i.Layers):
		return fmt.Errorf("config %s lists %d layers, the image has %d", i.Config, len(c.RootFS.DiffIDs), len(i.Layers))
	}
	for n, id := range c.RootFS.DiffIDs {
		i.Layers[n].DiffID = id
	}
	return nil
}
