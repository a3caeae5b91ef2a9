package imagebuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/imagebuild/rootfs"
	"github.com/quavon/quavon/runner/bundle"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/image/source"
)

// Unpacker brings the images of an offline bundle into store and engine, and its lock
// to where it belongs. It builds nothing, and asks no registry.
type Unpacker struct {
	Bundle *bundle.Bundle
	// Lock is the path of the lock file to write.
	Lock    string
	Store   *image.Store
	Connect func(context.Context) (*engine.Engine, error)
	// Events is told what happens; nil for nobody.
	Events func(Event)

	connected
}

// locked are the images of the lock for this host.
func (u *Unpacker) locked(each func(*lock.Image, *lock.Platform) error) error {
	here := source.Host().String()
	if !slices.Contains(u.Bundle.Manifest.Platforms, here) {
		return fault.New("the bundle has nothing for "+here+", only for "+strings.Join(u.Bundle.Manifest.Platforms, ", "),
			"make one with --platform "+here)
	}
	for img, p := range u.Bundle.Lock.On(source.Host()) {
		if err := each(img, p); err != nil {
			return err
		}
	}
	return nil
}

// Stale says what of the bundle isn't in place, one line each.
func (u *Unpacker) Stale(ctx context.Context) (why []string, err error) {
	files, err := readLocks(u.Lock)
	if err != nil {
		return nil, err
	}
	same, err := sameLock(files.current, u.Bundle.Lock)
	if err != nil {
		return nil, err
	}
	if !same {
		why = append(why, "the lock, from "+u.Bundle.Path)
	}
	err = u.locked(func(img *lock.Image, p *lock.Platform) error {
		here, err := u.present(ctx, img, p)
		if err == nil && !here {
			why = append(why, img.Name+": it isn't here as the bundle's lock says")
		}
		return err
	})
	return why, err
}

// sameLock compares all but who wrote it.
func sameLock(have, want *lock.File) (bool, error) {
	if have == nil {
		return false, nil
	}
	as := *want
	as.Builder = have.Builder
	a, err1 := have.Encode()
	b, err2 := as.Encode()
	return bytes.Equal(a, b), errors.Join(err1, err2)
}

// builder knows where things are; it builds nothing here.
func (u *Unpacker) builder() *Builder {
	return &Builder{Lock: u.Lock, Store: u.Store}
}

// present says whether store, engine and the files beside the lock have an image.
func (u *Unpacker) present(ctx context.Context, img *lock.Image, p *lock.Platform) (bool, error) {
	b := u.builder()
	if !b.stored(ctx, p) || p.SBOM != nil && !b.hasSize(p.SBOM.Path, p.SBOM.Size) {
		return false, nil
	}
	for _, a := range p.Artefacts {
		if !b.hasSize(a.Path, a.Size) {
			return false, nil
		}
	}
	for _, s := range signaturesOf(p) {
		if !b.hasSignature(s) {
			return false, nil
		}
	}
	return u.inEngine(ctx, img, p)
}

func signaturesOf(p *lock.Platform) []*lock.Signature {
	var all []*lock.Signature
	if p.Signature != nil {
		all = append(all, p.Signature)
	}
	for i := range p.BaseSignatures {
		all = append(all, &p.BaseSignatures[i].Signature)
	}
	return all
}

func (u *Unpacker) inEngine(ctx context.Context, img *lock.Image, p *lock.Platform) (bool, error) {
	e, err := u.reach(ctx, u.Connect)
	if err != nil {
		return false, err
	}
	switch _, err := InEngine(ctx, e, img, p); {
	case errors.Is(err, engine.ErrNoImage), errors.Is(err, ErrOtherImage):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

// Run puts everything in place, the lock last. What is there already stays.
func (u *Unpacker) Run(ctx context.Context) (*Result, error) {
	unlock, err := exclude(ctx, u.Lock)
	if err != nil {
		return nil, err
	}
	defer unlock()
	files, err := readLocks(u.Lock)
	if err != nil {
		return nil, err
	}
	r := &Result{Before: files.current, After: u.Bundle.Lock}
	if err := u.signatures(); err != nil {
		return nil, err
	}
	// From now on the store takes no image that isn't signed as the lock says.
	u.Store.Require(u.Bundle.Lock, filepath.Join(filepath.Dir(u.Lock), signature.Dir))
	err = u.locked(func(img *lock.Image, p *lock.Platform) error {
		here, err := u.present(ctx, img, p)
		if err != nil || here {
			return err
		}
		r.Made++
		if err := u.image(ctx, img, p); err != nil {
			return fault.Wrap(err, "can't take the image "+img.Name+" from "+u.Bundle.Path, fault.Hint(err))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.Changed, err = files.write(u.Bundle.Lock, false)
	return r, err
}

// maxBeside bounds a file beside the lock, in bytes.
const maxBeside = 64 << 20

// signatures writes those of the lock beside it, each under its digest.
func (u *Unpacker) signatures() error {
	return u.locked(func(img *lock.Image, p *lock.Platform) error {
		for _, s := range signaturesOf(p) {
			raw, err := u.Bundle.ReadFile(signatureMember(s.Bundle), maxBeside)
			if err != nil {
				return fault.Wrap(err, "the signature of the image "+img.Name, "have the bundle made again")
			}
			b, err := signature.ParseBundle(raw, s.Bundle)
			if err == nil {
				_, err = b.Write(filepath.Join(filepath.Dir(u.Lock), signature.Dir))
			}
			if err != nil {
				return fault.Wrap(err, "the signature of the image "+img.Name, "have the bundle made again")
			}
		}
		return nil
	})
}

// image brings one image into the store and the engine, and makes what lies beside
// the lock.
func (u *Unpacker) image(ctx context.Context, img *lock.Image, p *lock.Platform) error {
	got, err := u.open(ctx, img, p)
	if err != nil {
		return err
	}
	defer got.Close()
	what := Event{Image: img.Name, Platform: p.Platform, Text: "importing from " + filepath.Base(u.Bundle.Path)}
	r, _, err := u.Store.Import(ctx, got, image.ImportOptions{Name: img.Name, Progress: u.progress(what)})
	if err != nil {
		return err
	}
	if err := u.Store.Verify(ctx, r, false); err != nil { // and who signed it
		return err
	}
	here, err := u.inEngine(ctx, img, p)
	if err != nil {
		return err
	}
	if !here {
		what.Text = "loading into the engine"
		tell(u.Events, what)
		if _, err := u.engine.LoadSource(ctx, got, Tag(img.Name, p.Config), u.Store.Scratch(), func(int) {}); err != nil {
			return err
		}
	}
	if err := u.packages(p); err != nil {
		return err
	}
	return u.artefacts(ctx, got, img, p)
}

func (u *Unpacker) progress(what Event) func(done, total int64) {
	b := &Builder{Events: u.Events}
	what.Going = true
	return func(done, total int64) {
		e := what
		e.Done, e.Total = done, total
		b.tell(e)
	}
}

// open finds an image in the bundle, and compares it with the lock.
func (u *Unpacker) open(ctx context.Context, img *lock.Image, p *lock.Platform) (*source.Image, error) {
	digest := ""
	for _, i := range u.Bundle.Manifest.Images {
		if i.Name == img.Name && i.Platform == p.Platform {
			digest = i.Digest
		}
	}
	hash, err := v1.NewHash(digest)
	if err != nil {
		return nil, err
	}
	blob := func(_ context.Context, d v1.Hash) (io.ReadCloser, error) {
		return u.Bundle.Open(bundle.Blob(d.String()))
	}
	got, err := source.Blobs(ctx, blob, hash, source.Host())
	if err != nil {
		return nil, err
	}
	got.Origin = u.Bundle.Path
	if img.Source != lock.SourceRegistry && img.Source != lock.SourceLayout {
		// The manifest is the bundle's own, and nothing that the image is known by.
		got.Index, got.Manifest = v1.Hash{}, v1.Hash{}
	}
	if img.Source == lock.SourceDockerDaemon {
		got.Origin = "docker-daemon:" + Tag(img.Name, p.Config)
	}
	return got, isLocked(got, img, p)
}

// packages writes the list of packages, under the one kind of name it can have.
func (u *Unpacker) packages(p *lock.Platform) error {
	if p.SBOM == nil {
		return nil
	}
	raw, err := u.Bundle.ReadFile(p.SBOM.Path, maxBeside)
	if err != nil {
		return err
	}
	if m := u.Bundle.Manifest.Member(p.SBOM.Path); m.SHA256 != p.SBOM.SHA256 {
		return fmt.Errorf("%s isn't what the lock says", m.Name)
	}
	b := u.builder()
	return b.writeFile(b.beside(p.SBOM.Path), raw)
}

// artefacts makes the file systems that the lock has of an image once more: the same
// image and options give the same bytes.
func (u *Unpacker) artefacts(ctx context.Context, img *source.Image, of *lock.Image, p *lock.Platform) error {
	b := u.builder()
	for _, a := range p.Artefacts {
		if filepath.Dir(a.Path) != FilesDir {
			return fault.New("the lock has a file system at "+a.Path, "have the bundle made of a lock that `quavon build images` wrote")
		}
		o, err := artefactOptions(declare.Artefact{Kind: a.Kind, Options: a.Options})
		if err != nil {
			return err
		}
		path := b.beside(a.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		what := Event{Image: of.Name, Platform: p.Platform, Text: "making " + a.Path}
		maker := rootfs.Maker{Records: u.Store.Path("artefacts"), Progress: u.progress(what)}
		made, _, err := maker.Make(ctx, img, path, o)
		if err != nil {
			return err
		}
		if made.SHA256 != a.SHA256 {
			err := fault.New(a.Path+" isn't what the lock says", "have the lock made by the quavon of the bundle")
			return errors.Join(err, os.Remove(path))
		}
	}
	return nil
}
