package signature

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
)

// Layout lists what an OCI layout, a directory, has as signatures of a digest:
// as `cosign save` writes them, under cosign's tag, or as bundles that refer to
// it. Nothing of it has been checked; there may be none.
func Layout(ctx context.Context, dir string, digest v1.Hash) ([]*Bundle, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.Wrap(err, "can't read the signatures in "+dir, "name the directory of an OCI layout")
	}
	defer root.Close()
	f := &finder{docs: folder{root}, digest: digest}
	if err := f.layout(ctx, root); err != nil {
		return nil, fault.Wrap(err, "can't read the signatures in "+dir, "save the image again")
	}
	return f.found, nil
}

// folder opens regular files only; links can't lead out of it.
type folder struct{ root *os.Root }

func (f folder) manifest(ctx context.Context, d v1.Hash) (io.ReadCloser, error) {
	return f.blob(ctx, d)
}

func (f folder) blob(_ context.Context, d v1.Hash) (io.ReadCloser, error) {
	return f.open(filepath.Join("blobs", d.Algorithm, d.Hex))
}

func (f folder) open(name string) (io.ReadCloser, error) {
	return bounded.OpenIn(f.root, name)
}

func (f *finder) layout(ctx context.Context, root *os.Root) error {
	r, err := folder{root}.open("index.json")
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxManifest))
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	var ix v1.IndexManifest
	if err := json.Unmarshal(raw, &ix); err != nil {
		return fmt.Errorf("index.json: %w", err)
	}
	var others []v1.Descriptor
	for _, d := range ix.Manifests {
		if !f.isTagged(d) {
			others = append(others, d)
			continue
		}
		if f.tried++; f.tried > maxSignatures {
			break
		}
		raw, err := read(ctx, f.docs.manifest, "manifest", d.Digest, maxManifest)
		if err != nil {
			return err
		}
		f.simple(ctx, raw)
	}
	f.referrers(ctx, others)
	return f.failure()
}

// isTagged says whether an entry holds signatures in the first format: in what
// cosign saves it is marked, elsewhere it has the tag that it had in a registry.
func (f *finder) isTagged(d v1.Descriptor) bool {
	return d.Annotations["kind"] == "dev.cosignproject.cosign/sigs" ||
		strings.HasSuffix(d.Annotations["org.opencontainers.image.ref.name"], signatureTag(f.digest))
}
