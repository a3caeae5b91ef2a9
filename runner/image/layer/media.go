package layer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is what RFC 8878 asks every decoder to support. More would let a
// layer choose how much memory its import takes.
const maxWindow = 8 << 20

type compression string

const (
	none    compression = "uncompressed"
	gzipped compression = "gzip"
	zstded  compression = "zstd"
)

const dockerZstd types.MediaType = "application/vnd.docker.image.rootfs.diff.tar.zstd"

// mediaTypes is every type of layer that is read.
var mediaTypes = map[types.MediaType]compression{
	types.OCIUncompressedLayer:    none,
	types.OCILayer:                gzipped,
	types.OCILayerZStd:            zstded,
	types.DockerUncompressedLayer: none,
	types.DockerLayer:             gzipped,
	dockerZstd:                    zstded,
}

// MediaTypeError is a layer of a type that can't be read, or isn't read.
type MediaTypeError struct {
	Type   types.MediaType
	Digest v1.Hash
	Why    string
}

func (e *MediaTypeError) Error() string {
	return fmt.Sprintf("layer %s has the type %q: %s", e.Digest, e.Type, e.Why)
}

// CheckType says whether a layer can be read, before it is fetched.
func CheckType(d v1.Descriptor) error {
	switch _, known := mediaTypes[d.MediaType]; {
	case known || d.MediaType == "":
		return nil
	case strings.Contains(string(d.MediaType), "nondistributable") || d.MediaType == types.DockerForeignLayer:
		return &MediaTypeError{d.MediaType, d.Digest, "layers that lie outside the registry aren't fetched"}
	}
	return &MediaTypeError{d.MediaType, d.Digest, "unknown"}
}

var magics = []struct {
	bytes string
	is    compression
}{
	{"\x1f\x8b", gzipped},
	{"\x28\xb5\x2f\xfd", zstded},
	{"BZh", "bzip2"},
	{"\xfd7zXZ\x00", "xz"},
}

// sniff names the compression by the first bytes.
func sniff(b []byte) compression {
	for _, m := range magics {
		if bytes.HasPrefix(b, []byte(m.bytes)) {
			return m.is
		}
	}
	// zstd's skippable frames
	if len(b) >= 4 && b[0]&0xf0 == 0x50 && string(b[1:4]) == "\x2a\x4d\x18" {
		return zstded
	}
	return none
}

// decompress returns nil when r is a plain tar already.
func decompress(r *ahead, d v1.Descriptor) (io.Reader, error) {
	if err := CheckType(d); err != nil {
		return nil, err
	}
	head, err := r.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	found := sniff(head)
	if want, known := mediaTypes[d.MediaType]; known && want != found {
		return nil, &MediaTypeError{d.MediaType, d.Digest, "its content is " + string(found)}
	}
	switch found {
	case none:
		return nil, nil
	case gzipped:
		return gzip.NewReader(bufio.NewReaderSize(r, 64<<10))
	case zstded:
		return newZstd(r)
	}
	return nil, &MediaTypeError{d.MediaType, d.Digest, "its content is " + string(found)}
}

func newZstd(r io.Reader) (io.Reader, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return &zstdReader{z}, nil
}

// zstdReader explains the one error an honest image can meet.
type zstdReader struct{ *zstd.Decoder }

func (z *zstdReader) Read(p []byte) (int, error) {
	n, err := z.Decoder.Read(p)
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		err = fmt.Errorf("%w: compress the layer with a window of at most %d MiB", err, maxWindow>>20)
	}
	return n, err
}
