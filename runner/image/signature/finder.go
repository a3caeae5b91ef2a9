package signature

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	"github.com/sigstore/cosign/v2/pkg/types"

	"github.com/quavon/quavon/runner/image/layer"
)

const (
	// maxSignatures bounds how many signatures of an image are looked at: who can
	// write to a repository could add any number.
	maxSignatures = 64
	// maxPayload bounds one of them; a real one has 250 bytes, in a bundle some KiB.
	maxPayload = 256 << 10
	// maxManifest bounds a manifest, as registries do.
	maxManifest = 4 << 20
	// sigstoreType begins the types of all versions of bundles.
	sigstoreType = "application/vnd.dev.sigstore.bundle"
)

// documents reads small documents by digest, unchecked.
type documents interface {
	manifest(ctx context.Context, digest v1.Hash) (io.ReadCloser, error)
	blob(ctx context.Context, digest v1.Hash) (io.ReadCloser, error)
}

// finder collects the signatures of one digest. One that can't be read doesn't
// hide the others.
type finder struct {
	docs   documents
	digest v1.Hash
	tried  int
	found  []*Bundle
	failed []error
}

// failure is why nothing was found, nil when there was nothing to find.
func (f *finder) failure() error {
	if len(f.found) > 0 {
		return nil
	}
	return errors.Join(f.failed[:min(len(f.failed), maxTold)]...)
}

// one counts a signature, and notes what went wrong with it.
func (f *finder) one(get func() (*Bundle, error)) {
	if f.tried++; f.tried > maxSignatures {
		return
	}
	b, err := get()
	if err != nil {
		f.failed = append(f.failed, err)
	} else if b != nil {
		b.Version, b.Digest = bundleVersion, f.digest
		f.found = append(f.found, b)
	}
}

// simple takes the layers of a manifest, each one a signature.
func (f *finder) simple(ctx context.Context, raw []byte) {
	var m v1.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		f.failed = append(f.failed, fmt.Errorf("the manifest of signatures can't be read: %w", err))
	}
	for _, d := range m.Layers {
		if d.MediaType != types.SimpleSigningMediaType {
			continue
		}
		f.one(func() (*Bundle, error) {
			payload, err := read(ctx, f.docs.blob, "signature", d.Digest, maxPayload)
			return &Bundle{Simple: &Simple{payload, known(d.Annotations)}}, err
		})
	}
}

// known keeps the annotations that belong to a signature.
func known(all map[string]string) map[string]string {
	kept := map[string]string{}
	for _, k := range []string{
		static.SignatureAnnotationKey, static.CertificateAnnotationKey, static.ChainAnnotationKey,
		static.BundleAnnotationKey, static.RFC3161TimestampAnnotationKey,
	} {
		if v := all[k]; v != "" && len(v) <= maxPayload {
			kept[k] = v
		}
	}
	return kept
}

// referrers takes the bundles among what refers to the digest.
func (f *finder) referrers(ctx context.Context, all []v1.Descriptor) {
	for _, d := range all {
		// Some registries name a bundle's type only in its manifest.
		if d.ArtifactType != "" && !strings.HasPrefix(d.ArtifactType, sigstoreType) && !isEmptyType(d.ArtifactType) {
			continue
		}
		f.one(func() (*Bundle, error) { return f.sigstore(ctx, d.Digest) })
	}
}

// isEmptyType is what cosign's bundles have as the type of their config, which
// older registries repeat as the artefact's.
func isEmptyType(t string) bool {
	return t == "application/vnd.oci.empty.v1+json" || t == "application/vnd.oci.image.config.v1+json"
}

// sigstore reads one bundle, nil when it is something else.
func (f *finder) sigstore(ctx context.Context, manifest v1.Hash) (*Bundle, error) {
	raw, err := read(ctx, f.docs.manifest, "manifest", manifest, maxManifest)
	if err != nil {
		return nil, err
	}
	var m v1.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", manifest, err)
	}
	if len(m.Layers) != 1 || !strings.HasPrefix(string(m.Layers[0].MediaType), sigstoreType) ||
		m.Subject == nil || m.Subject.Digest != f.digest {
		return nil, nil
	}
	bundle, err := read(ctx, f.docs.blob, "bundle", m.Layers[0].Digest, maxPayload)
	return &Bundle{Sigstore: bundle}, err
}

// opener opens a document.
type opener func(context.Context, v1.Hash) (io.ReadCloser, error)

// read reads and checks a document.
func read(ctx context.Context, open opener, kind string, d v1.Hash, most int64) ([]byte, error) {
	r, err := open(ctx, d)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("the %s %s has more than %d bytes", kind, d, most)
	} else if err == nil {
		err = layer.Check(kind, raw, d)
	}
	return raw, errors.Join(err, r.Close())
}
