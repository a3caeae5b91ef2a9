package imagebuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/lock"
)

// Verifier compares what is here with a lock.
type Verifier struct {
	Store *image.Store
	// Dir is the directory of the lock.
	Dir string
	// Connect reaches the Docker Engine; it is called when the lock has an image
	// that should be there.
	Connect func(context.Context) (*engine.Engine, error)

	connected
	failed error
}

// ErrNotChecked is a part that couldn't be looked at, which is neither right nor
// wrong.
var ErrNotChecked = errors.New("not checked")

// Image checks one platform of a locked image: the store's record, the engine's
// layers, and the sha256 of every file beside the lock. The store's root itself is
// image.Store.Verify's. It returns everything that is wrong.
func (v *Verifier) Image(ctx context.Context, img *lock.Image, p *lock.Platform) []error {
	errs := []error{v.record(img, p)}
	if img.Source == lock.SourceDockerDaemon {
		errs = append(errs, v.inEngine(ctx, img, p))
	}
	if p.SBOM != nil {
		errs = append(errs, v.file(ctx, p.SBOM.Path, p.SBOM.SHA256, p.SBOM.Size))
	}
	for _, a := range p.Artefacts {
		errs = append(errs, v.file(ctx, a.Path, a.SHA256, a.Size))
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// record compares the store's record of the image.
func (v *Verifier) record(img *lock.Image, p *lock.Platform) error {
	r, err := v.Store.Find(p.Config)
	if err != nil {
		return err
	}
	came := slices.ContainsFunc(r.Origins, func(o image.Origin) bool {
		return (p.Manifest == "" || o.Manifest == p.Manifest) && (img.Index == "" || o.Index == img.Index)
	})
	switch {
	case r.Platform.String() != p.Platform && !sameArch(r.Platform, p.Platform):
		return fmt.Errorf("the store has it for %s", r.Platform)
	case !sameDigests(r.DiffIDs, p.DiffIDs):
		return errors.New("the store has other layers than the lock says")
	case p.Size > 0 && r.Root.Size != p.Size:
		return fmt.Errorf("its root has %d bytes, the lock says %d", r.Root.Size, p.Size)
	case !came:
		return errors.New("it came into the store by another manifest or index than the lock says")
	}
	return nil
}

// sameArch takes a missing variant for the usual one.
func sameArch(have v1.Platform, want string) bool {
	w, err := v1.ParsePlatform(want)
	return err == nil && have.OS == w.OS && have.Architecture == w.Architecture && (have.Variant == "" || w.Variant == "")
}

func sameDigests(have []v1.Hash, want []string) bool {
	return slices.EqualFunc(have, want, func(h v1.Hash, s string) bool { return h.String() == s })
}

func (v *Verifier) inEngine(ctx context.Context, img *lock.Image, p *lock.Platform) error {
	if v.failed != nil {
		return fmt.Errorf("%w: %w", ErrNotChecked, v.failed)
	}
	e, err := v.reach(ctx, v.Connect)
	if err != nil {
		v.failed = err // asked once
		return fmt.Errorf("%w: %w", ErrNotChecked, err)
	}
	_, err = InEngine(ctx, e, img, p)
	return err
}

// file compares a file beside the lock.
func (v *Verifier) file(ctx context.Context, path, want string, size int64) error {
	f, err := bounded.Open(filepath.Join(v.Dir, path))
	if err != nil {
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
			err = pe.Err
		}
		return fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, &reader{ctx, io.LimitReader(f, size+1)})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if n != size {
		return fmt.Errorf("%s: it has another size than the %d bytes of the lock", path, size)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("%s: its sha256 is %s, the lock says %s", path, got, want)
	}
	return nil
}

// reader ends when its context does.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}
