// Package tarlayer has layers of images that are plain tars in files. They aren't
// packed: what a packer makes of a tar changes with the packer, and a digest with it.
package tarlayer

import (
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Layer is the tar at Path, whose digest and size in bytes are known.
type Layer struct {
	Path  string
	Hash  v1.Hash
	Bytes int64
}

var _ v1.Layer = (*Layer)(nil)

// Digest implements v1.Layer.
func (l *Layer) Digest() (v1.Hash, error) { return l.Hash, nil }

// DiffID implements v1.Layer.
func (l *Layer) DiffID() (v1.Hash, error) { return l.Hash, nil }

// Compressed implements v1.Layer.
func (l *Layer) Compressed() (io.ReadCloser, error) { return os.Open(l.Path) }

// Uncompressed implements v1.Layer.
func (l *Layer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.Path) }

// Size implements v1.Layer.
func (l *Layer) Size() (int64, error) { return l.Bytes, nil }

// MediaType implements v1.Layer.
func (l *Layer) MediaType() (types.MediaType, error) { return types.OCIUncompressedLayer, nil }
