package imagebuild

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/bundle"
	"github.com/quavon/quavon/runner/image/source"
)

// staged are the members of a bundle before it is written: its first member names all
// others with their digests, so that they must be known.
type staged struct {
	// dir keeps content that isn't in a file of its own.
	dir   string
	files map[string]stagedFile
}

// stagedFile is in memory, or at a path.
type stagedFile struct {
	raw    []byte
	path   string
	size   int64
	sha256 string
}

var _ bundle.Content = (*staged)(nil)

// Open implements bundle.Content.
func (s *staged) Open(name string) (io.ReadCloser, error) {
	f, ok := s.files[name]
	if !ok {
		return nil, os.ErrNotExist
	}
	if f.path == "" {
		return io.NopCloser(bytes.NewReader(f.raw)), nil
	}
	return os.Open(f.path)
}

func (s *staged) members() []bundle.Member {
	var all []bundle.Member
	for name, f := range s.files {
		all = append(all, bundle.Member{Name: name, Size: f.size, SHA256: f.sha256})
	}
	return all
}

func (s *staged) add(name string, raw []byte) {
	sum := sha256.Sum256(raw)
	s.files[name] = stagedFile{raw: raw, size: int64(len(raw)), sha256: hex.EncodeToString(sum[:])}
}

// addBlob adds a document to the layout.
func (s *staged) addBlob(t types.MediaType, raw []byte) v1.Descriptor {
	sum := sha256.Sum256(raw)
	d := v1.Descriptor{MediaType: t, Size: int64(len(raw)), Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}}
	s.add(bundle.Blob(d.Digest.String()), raw)
	return d
}

// addFile adds a file where it is.
func (s *staged) addFile(name, path string) error {
	in, err := bounded.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	h := sha256.New()
	n, err := io.Copy(h, in)
	s.files[name] = stagedFile{path: path, size: n, sha256: hex.EncodeToString(h.Sum(nil))}
	return err
}

// addImage adds an image to the layout: as its source has it, digests and all, or, where
// that has no manifest, with one of our own.
func (s *staged) addImage(ctx context.Context, img *source.Image) (v1.Descriptor, error) {
	layers := make([]v1.Descriptor, len(img.Layers))
	files := make([]stagedFile, len(img.Layers))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range img.Layers {
		group.Go(func() (err error) {
			layers[i], files[i], err = s.layer(ctx, &img.Layers[i], len(img.Documents) > 0)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return v1.Descriptor{}, err
	}
	for i, f := range files {
		s.files[bundle.Blob(layers[i].Digest.String())] = f
	}
	config := s.addBlob(types.OCIConfigJSON, img.RawConfig)
	if len(img.Documents) > 0 {
		for _, d := range img.Documents {
			s.addBlob(d.MediaType, d.Raw)
		}
		return img.Documents[0].Descriptor, nil
	}
	raw, err := json.Marshal(v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config, Layers: layers})
	return s.addBlob(types.OCIManifestSchema1, raw), err
}

// layer keeps a layer: as it is, or compressed. Both are read to the end, which checks
// the digests that it has.
func (s *staged) layer(ctx context.Context, l *source.Layer, asIs bool) (d v1.Descriptor, f stagedFile, err error) {
	open := func() (io.ReadCloser, error) { return l.Open(ctx, func(int) {}) }
	if asIs {
		open = func() (io.ReadCloser, error) { return l.Blob(ctx) }
	}
	out, err := os.CreateTemp(s.dir, "layer-")
	if err != nil {
		return d, f, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	in, err := open()
	if err != nil {
		return d, f, err
	}
	h := sha256.New()
	err = pack(io.MultiWriter(out, h), &reader{ctx, in}, asIs)
	if err = errors.Join(err, in.Close()); err != nil {
		return d, f, err
	}
	info, err := out.Stat()
	if err != nil {
		return d, f, err
	}
	f = stagedFile{path: out.Name(), size: info.Size(), sha256: hex.EncodeToString(h.Sum(nil))}
	d = v1.Descriptor{MediaType: types.OCILayerZStd, Size: f.size, Digest: v1.Hash{Algorithm: "sha256", Hex: f.sha256}}
	if asIs && d.Digest != l.Digest {
		return d, f, fmt.Errorf("layer %s is damaged: its digest is %s", l.Digest, d.Digest)
	}
	if asIs {
		d = l.Descriptor
	}
	return d, f, nil
}

// pack copies, and compresses what isn't wanted as it is. One goroutine of the
// compressor, and a window that every reader of layers takes, so that the bytes depend
// on nothing but the content.
func pack(w io.Writer, r io.Reader, asIs bool) error {
	if asIs {
		_, err := io.Copy(w, r)
		return err
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(8<<20))
	if err != nil {
		return err
	}
	_, err = io.Copy(z, r)
	return errors.Join(err, z.Close())
}

// addLayout makes an OCI layout of the blobs, for other programs: an installation
// begins with the manifest's digests.
func (s *staged) addLayout(index []v1.Descriptor) error {
	s.add(bundle.LayoutName, []byte(`{"imageLayoutVersion":"1.0.0"}`+"\n"))
	if index == nil {
		index = []v1.Descriptor{}
	}
	raw, err := json.MarshalIndent(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: index}, "", "  ")
	s.add(bundle.IndexName, append(raw, '\n'))
	return err
}
