package imagebuild

import (
	"context"
	"errors"
	"maps"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/image/source"
)

// reuse returns what the lock has of an image when all of it is still there, after
// making the files that are missing; nil when the image must be made again.
func (b *Builder) reuse(ctx context.Context, i *declare.Image, p v1.Platform, img *lock.Image, had *lock.Platform) (*lock.Platform, error) {
	there, err := b.present(ctx, img, had)
	if err != nil || !there || !b.signaturesThere(i, had) {
		return nil, err
	}
	if wanted, err := sameArtefacts(i, had); err != nil || wanted && b.filesThere(had) {
		return had, err
	}
	again, err := b.open(ctx, i, p, img, had)
	if err != nil {
		return nil, err
	}
	defer again.Close()
	b.tell(Event{Image: i.Name, Platform: p.String(), Text: "making what is missing beside the lock"})
	files, err := b.keep(ctx, i, p, again)
	if err != nil {
		return nil, err
	}
	out := *had
	out.Size, out.SBOM, out.Artefacts = files.Size, files.SBOM, files.Artefacts
	return &out, nil
}

// present says whether the store and, for built images, the engine have an image.
func (b *Builder) present(ctx context.Context, img *lock.Image, p *lock.Platform) (bool, error) {
	if !b.stored(ctx, p) {
		return false, nil
	}
	if img.Source != lock.SourceDockerDaemon {
		return true, nil
	}
	e, err := b.docker(ctx)
	if err != nil {
		return false, err
	}
	_, err = InEngine(ctx, e, img, p)
	switch {
	case errors.Is(err, engine.ErrNoImage), errors.Is(err, ErrOtherImage):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

// stored says whether the store has an image, intact.
func (b *Builder) stored(ctx context.Context, p *lock.Platform) bool {
	r, err := b.Store.Find(p.Config)
	return err == nil && b.Store.Verify(ctx, r, false) == nil
}

// ErrOtherImage is an image of the engine that isn't what the lock says.
var ErrOtherImage = errors.New("the engine has another image under this name")

// InEngine finds a locked image in the engine and compares its layers.
func InEngine(ctx context.Context, e *engine.Engine, img *lock.Image, p *lock.Platform) (*engine.Image, error) {
	at, err := e.Inspect(ctx, p.Config)
	if errors.Is(err, engine.ErrNoImage) { // one that is kept in containerd goes by another digest
		at, err = e.Inspect(ctx, Tag(img.Name, p.Config))
	}
	if err != nil {
		return nil, err
	}
	if strings.Join(at.DiffIDs, " ") != strings.Join(p.DiffIDs, " ") {
		return nil, ErrOtherImage
	}
	return at, nil
}

// open reads a locked image once more, from where it came.
func (b *Builder) open(ctx context.Context, i *declare.Image, p v1.Platform, img *lock.Image, had *lock.Platform) (*source.Image, error) {
	if img.Source != lock.SourceDockerDaemon {
		again, _, err := b.fetch(ctx, i.Ref, i.Signature, p)
		return again, err
	}
	e, err := b.docker(ctx)
	if err != nil {
		return nil, err
	}
	at, err := InEngine(ctx, e, img, had)
	if err != nil {
		return nil, err
	}
	again, err := e.Save(ctx, at.ID, p, b.Store.Scratch())
	if err == nil && again.Config.String() != had.Config {
		err = errors.Join(ErrOtherImage, again.Close())
	}
	return again, err
}

// sameArtefacts says whether the lock has just the file systems that are wanted.
func sameArtefacts(i *declare.Image, p *lock.Platform) (bool, error) {
	if len(i.Artefacts) != len(p.Artefacts) {
		return false, nil
	}
	for _, a := range i.Artefacts {
		o, err := artefactOptions(a)
		if err != nil {
			return false, err
		}
		found := false
		for _, had := range p.Artefacts {
			found = found || had.Kind == a.Kind && maps.Equal(had.Options, o.Fields())
		}
		if !found {
			return false, nil
		}
	}
	return true, nil
}

// filesThere says whether the files that the lock names are there, by their sizes;
// `quavon images verify` reads them.
func (b *Builder) filesThere(p *lock.Platform) bool {
	if p.SBOM == nil || !b.hasSize(p.SBOM.Path, p.SBOM.Size) {
		return false
	}
	for _, a := range p.Artefacts {
		if !b.hasSize(a.Path, a.Size) {
			return false
		}
	}
	return true
}

// signaturesThere says whether the signatures that were checked are beside the
// lock. One that was made here can be made again.
func (b *Builder) signaturesThere(i *declare.Image, p *lock.Platform) bool {
	if p.Signature != nil && i.Ref != "" && !b.hasSignature(p.Signature) {
		return false
	}
	for _, s := range p.BaseSignatures {
		if !b.hasSignature(&s.Signature) {
			return false
		}
	}
	return true
}

func (b *Builder) hasSignature(s *lock.Signature) bool {
	_, err := signature.Read(b.beside(signature.Dir), s.Bundle)
	return err == nil
}

func (b *Builder) hasSize(path string, size int64) bool {
	info, err := os.Stat(b.beside(path))
	return err == nil && info.Mode().IsRegular() && info.Size() == size
}
