package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/quavon/quavon/runner/image/layer"
)

// walker goes from an index or a manifest to one image.
type walker struct {
	blobs    blobs
	platform v1.Platform
	fetches  int
}

func walk(ctx context.Context, b blobs, d v1.Descriptor, p v1.Platform) (*Image, error) {
	w := &walker{blobs: b, platform: p}
	return w.follow(ctx, d, 0)
}

// follow reads what d names. Depth counts the indexes above it.
func (w *walker) follow(ctx context.Context, d v1.Descriptor, depth int) (*Image, error) {
	if w.fetches++; w.fetches > maxFetches {
		return nil, fmt.Errorf("the index leads to more than %d documents", maxFetches)
	}
	raw, err := document(ctx, w.blobs, "manifest", d)
	if err != nil {
		return nil, err
	}
	isIndex, err := kindOf(raw, d)
	if err != nil {
		return nil, err
	}
	if !isIndex {
		return w.image(ctx, raw, d)
	}
	if depth++; depth > maxDepth {
		return nil, fmt.Errorf("index %s lies deeper than %d indexes", d.Digest, maxDepth)
	}
	ix, err := parse(raw, v1.ParseIndexManifest)
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", d.Digest, err)
	}
	img, err := w.choose(ctx, ix.Manifests, depth)
	if err != nil {
		return nil, err
	}
	img.Index = d.Digest
	img.Documents = slices.Insert(img.Documents, 0, documentOf(raw, types.OCIImageIndex))
	return img, nil
}

// documentOf describes a document by what it says of itself, or else as usual.
func documentOf(raw []byte, usual types.MediaType) Document {
	doc := struct{ MediaType types.MediaType }{usual}
	_ = json.Unmarshal(raw, &doc) // it was read already
	return Document{v1.Descriptor{MediaType: doc.MediaType, Digest: layer.Digest(raw), Size: int64(len(raw))}, raw}
}

// choose takes the entry for the platform; entries that name none are looked
// into when there is no such entry.
func (w *walker) choose(ctx context.Context, entries []v1.Descriptor, depth int) (*Image, error) {
	none := &PlatformError{Want: w.platform}
	var labelled, unlabelled []v1.Descriptor
	for _, d := range entries {
		switch {
		case isAttestation(d):
		case d.Platform == nil || d.Platform.OS == "" && d.Platform.Architecture == "":
			unlabelled = append(unlabelled, d)
		case matches(*d.Platform, w.platform):
			labelled = append(labelled, d)
		default:
			none.Have = append(none.Have, d.Platform.String())
		}
	}
	if len(labelled) > 0 {
		return w.follow(ctx, labelled[0], depth)
	}
	for _, d := range unlabelled {
		img, err := w.follow(ctx, d, depth)
		var other *PlatformError
		switch {
		case errors.As(err, &other):
			none.Have = append(none.Have, other.Have...)
		case errors.Is(err, ErrNotImage):
		default:
			return img, err
		}
	}
	return nil, none
}

// image reads a manifest and its config.
func (w *walker) image(ctx context.Context, raw []byte, d v1.Descriptor) (*Image, error) {
	m, err := parse(raw, v1.ParseManifest)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", d.Digest, err)
	}
	if m.Config.MediaType != types.OCIConfigJSON && m.Config.MediaType != types.DockerConfigJSON {
		return nil, fmt.Errorf("%w: manifest %s has a config of the type %q", ErrNotImage, d.Digest, m.Config.MediaType)
	}
	if len(m.Layers) > maxLayers {
		return nil, fmt.Errorf("manifest %s has %d layers, more than %d", d.Digest, len(m.Layers), maxLayers)
	}
	config, err := document(ctx, w.blobs, "config", m.Config)
	if err != nil {
		return nil, err
	}
	img := &Image{Manifest: layer.Digest(raw), Documents: []Document{documentOf(raw, types.OCIManifestSchema1)}}
	for _, l := range m.Layers {
		img.Layers = append(img.Layers, Layer{Descriptor: l, blobs: w.blobs})
	}
	if err := img.addConfig(config, w.platform); err != nil {
		return nil, err
	}
	for _, l := range m.Layers {
		if err := layer.CheckType(l); err != nil {
			return nil, err
		}
		if l.Size < 0 {
			return nil, fmt.Errorf("manifest %s: layer %s has a negative size", d.Digest, l.Digest)
		}
	}
	return img, nil
}

// kindOf tells an index from a manifest. A document that could be read as either
// is refused: two readers would see two images.
func kindOf(raw []byte, d v1.Descriptor) (isIndex bool, err error) {
	var doc struct {
		SchemaVersion             int
		MediaType                 types.MediaType
		Config, Layers, Manifests json.RawMessage
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return false, fmt.Errorf("manifest %s: %w", d.Digest, err)
	}
	isIndex = doc.Manifests != nil
	if isIndex == (doc.Config != nil || doc.Layers != nil) || doc.SchemaVersion != 2 {
		return false, fmt.Errorf("%w: %s is neither a manifest nor an index of version 2", ErrNotImage, d.Digest)
	}
	for _, t := range []types.MediaType{doc.MediaType, d.MediaType} {
		if t != "" && (isIndex && !t.IsIndex() || !isIndex && !t.IsImage()) {
			return false, fmt.Errorf("%w: %s has the type %q", ErrNotImage, d.Digest, t)
		}
	}
	return isIndex, nil
}

func parse[T any](raw []byte, f func(io.Reader) (T, error)) (T, error) {
	return f(bytes.NewReader(raw))
}
