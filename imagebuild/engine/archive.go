package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/image/source"
)

// maxLayer bounds a layer that is loaded, in bytes.
const maxLayer = 64 << 30

// archive is an image on its way into the engine: a docker-archive.
type archive struct {
	config []byte
	id     v1.Hash
	layers []archiveLayer
}

type archiveLayer struct {
	diffID v1.Hash
	open   func(ctx context.Context) (io.ReadCloser, error)
}

// LoadSource has the engine read an image of any source. Its layers are checked
// before the engine sees them; progress is told how many bytes were read.
func (e *Engine) LoadSource(ctx context.Context, img *source.Image, name, scratch string, progress func(n int)) (*Image, error) {
	a := &archive{config: img.RawConfig, id: img.Config}
	for i := range img.Layers {
		l := &img.Layers[i]
		open := func(ctx context.Context) (io.ReadCloser, error) { return l.Open(ctx, progress) }
		a.layers = append(a.layers, archiveLayer{l.DiffID, open})
	}
	return e.loadArchive(ctx, a, name, scratch)
}

// LoadImage has the engine read an image that was made here.
func (e *Engine) LoadImage(ctx context.Context, img v1.Image, name, scratch string) (*Image, error) {
	raw, err1 := img.RawConfigFile()
	id, err2 := img.ConfigName()
	layers, err3 := img.Layers()
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	a := &archive{config: raw, id: id}
	for _, l := range layers {
		diff, err := l.DiffID()
		if err != nil {
			return nil, err
		}
		a.layers = append(a.layers, archiveLayer{diff, func(context.Context) (io.ReadCloser, error) { return l.Uncompressed() }})
	}
	return e.loadArchive(ctx, a, name, scratch)
}

// loadArchive streams the archive and makes sure that the engine now has it.
func (e *Engine) loadArchive(ctx context.Context, a *archive, name, scratch string) (*Image, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(a.write(ctx, w, name, scratch)) }()
	err := e.Load(ctx, r)
	_ = r.CloseWithError(errors.New("the engine reads no more")) // ends write
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", name, cause(ctx, err))
	}
	at, err := e.Inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	for i, l := range a.layers {
		if i >= len(at.DiffIDs) || at.DiffIDs[i] != l.diffID.String() {
			return nil, fmt.Errorf("load %s: the engine has other layers than it was sent", name)
		}
	}
	return at, nil
}

type saved struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func (a *archive) write(ctx context.Context, to io.Writer, name, scratch string) error {
	w := tar.NewWriter(to)
	m := saved{Config: a.id.Hex + ".json", RepoTags: []string{name}, Layers: []string{}}
	if err := add(w, m.Config, int64(len(a.config)), bytes.NewReader(a.config)); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, l := range a.layers {
		file := l.diffID.Hex + "/layer.tar"
		m.Layers = append(m.Layers, file)
		if seen[file] {
			continue
		}
		seen[file] = true
		if err := l.write(ctx, w, file, scratch); err != nil {
			return err
		}
	}
	raw, err := json.Marshal([]saved{m})
	if err != nil {
		return err
	}
	if err := add(w, "manifest.json", int64(len(raw)), strings.NewReader(string(raw))); err != nil {
		return err
	}
	return w.Close()
}

// write copies a layer by way of a file, since a tar begins with the size.
func (l *archiveLayer) write(ctx context.Context, w *tar.Writer, name, scratch string) (err error) {
	f, err := os.CreateTemp(scratch, "layer-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	r, err := l.open(ctx)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, maxLayer+1))
	if err == nil && n > maxLayer {
		err = fmt.Errorf("layer %s has more than %d bytes", l.diffID, int64(maxLayer))
	}
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return add(w, name, n, f)
}

func add(w *tar.Writer, name string, size int64, r io.Reader) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err := io.Copy(w, r)
	return err
}
