package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
)

// layout is an OCI image layout, in a directory or a tar.
type layout struct{ files files }

// files opens regular files by slash-separated paths.
type files interface {
	openFile(name string) (io.ReadCloser, int64, error)
}

func (l layout) open(_ context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	r, _, err := l.files.openFile("blobs/" + d.Digest.Algorithm + "/" + d.Digest.Hex)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the layout has no blob %s", d.Digest)
	}
	return r, err
}

// image finds the image in a layout.
func (l layout) image(ctx context.Context, s Select) (*Image, error) {
	if s.Digest != (v1.Hash{}) {
		return walk(ctx, l, v1.Descriptor{Digest: s.Digest}, s.Platform)
	}
	raw, err := readFile(l.files, "index.json")
	if err != nil {
		return nil, err
	}
	ix, err := parse(raw, v1.ParseIndexManifest)
	if err != nil {
		return nil, fmt.Errorf("index.json: %w", err)
	}
	found := l.candidates(ix.Manifests, s)
	if len(found) != 1 {
		return nil, ambiguous(found)
	}
	return walk(ctx, l, found[0], s.Platform)
}

func (l layout) candidates(entries []v1.Descriptor, s Select) []v1.Descriptor {
	var found []v1.Descriptor
	for _, d := range entries {
		named := s.Name == "" || d.Annotations["org.opencontainers.image.ref.name"] == s.Name ||
			d.Annotations["io.containerd.image.name"] == s.Name
		fits := d.Platform == nil || matches(*d.Platform, s.Platform)
		if named && fits && !isAttestation(d) {
			found = append(found, d)
		}
	}
	return found
}

func ambiguous(found []v1.Descriptor) error {
	if len(found) == 0 {
		return fault.New("no such image in it", "see what its index.json lists")
	}
	msg := "it holds more than one image:"
	for _, d := range found {
		msg += " " + d.Digest.String()
	}
	return fault.New(msg, "choose one with --digest")
}

func readFile(f files, name string) ([]byte, error) {
	r, _, err := f.openFile(name)
	if err != nil {
		return nil, err
	}
	raw, err := readDocument(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return raw, nil
}

// dirFiles are the files of a directory; links can't lead out of it.
type dirFiles struct{ root *os.Root }

func (d dirFiles) openFile(name string) (io.ReadCloser, int64, error) {
	f, err := bounded.OpenIn(d.root, filepath.FromSlash(name))
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, st.Size(), nil
}
