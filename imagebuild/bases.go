package imagebuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	recipe "github.com/quavon/quavon/imagebuild/base"
	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
)

// secretSources is the secret with apt's sources, which mmdebstrap reads as well.
const secretSources = "apt-sources"

// base is a base that the engine has.
type base struct {
	// tag is its name there, id what the engine calls it.
	tag, id string
	// digest is what the lock says of it.
	digest    string
	signature *lock.Signature
}

// base has the engine know a base, under a name that says which it is.
func (b *Builder) base(ctx context.Context, e *engine.Engine, d *declare.Base, p v1.Platform) (*base, error) {
	key := d.Name + " " + p.String()
	if known := b.bases[key]; known != nil {
		return known, nil
	}
	made, err := b.makeBase(ctx, e, d, p)
	if err != nil {
		return nil, fault.Wrap(err, "can't get the base "+d.Name, fault.Hint(err))
	}
	if b.bases == nil {
		b.bases = map[string]*base{}
	}
	b.bases[key] = made
	return made, nil
}

func (b *Builder) makeBase(ctx context.Context, e *engine.Engine, d *declare.Base, p v1.Platform) (*base, error) {
	if d.Ref != "" {
		return b.fetchBase(ctx, e, d, p)
	}
	s, err := b.baseSource(ctx, d)
	if err != nil {
		return nil, err
	}
	tag := baseTag(d.Name, s.Recipe, p)
	if at, err := e.Inspect(ctx, tag); err == nil {
		return &base{tag: tag, id: at.ID, digest: at.ID}, nil
	} else if !errors.Is(err, engine.ErrNoImage) {
		return nil, err
	}
	return b.bootstrap(ctx, e, d, p, tag)
}

// baseTag names a base by what it is made from. The host can't exist: some engines
// look for a name in its registry before they take what they have.
func baseTag(name, digest string, p v1.Platform) string {
	_, hex, _ := strings.Cut(digest, ":")
	return fmt.Sprintf("quavon.invalid/base-%s:%s-%s", name, hex[:12], p.Architecture)
}

// bootstrap makes a base by its recipe.
func (b *Builder) bootstrap(ctx context.Context, e *engine.Engine, d *declare.Base, p v1.Platform, tag string) (*base, error) {
	r, err := recipe.Read(b.path(d.Recipe))
	if err != nil {
		return nil, err
	}
	b.tell(Event{Image: "base " + d.Name, Platform: p.String(), Text: "making it with mmdebstrap"})
	made, err := r.Make(ctx, p.Architecture, b.Store.Scratch(), recipe.Options{Sources: b.Secrets[secretSources]})
	if err != nil {
		return nil, err
	}
	defer os.Remove(made.Layer)
	at, err := e.LoadImage(ctx, made.Image, tag, b.Store.Scratch())
	if err != nil {
		return nil, err
	}
	config, err := made.Image.ConfigName()
	if err != nil {
		return nil, err
	}
	b.tell(Event{Image: "base " + d.Name, Platform: p.String(), Text: fmt.Sprintf("made, %d packages, %s", len(made.Packages), config)})
	return &base{tag: tag, id: at.ID, digest: config.String()}, nil
}

// fetchBase loads a base that exists, read by digest and checked.
func (b *Builder) fetchBase(ctx context.Context, e *engine.Engine, d *declare.Base, p v1.Platform) (*base, error) {
	img, signature, err := b.fetch(ctx, d.Ref, d.Signature, p)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	_, digest, _ := strings.Cut(d.Ref, "@")
	made := &base{tag: baseTag(d.Name, digest, p), digest: digest, signature: signature}
	at, err := e.Inspect(ctx, made.tag)
	switch {
	case err == nil && sameLayers(at.DiffIDs, img):
	case err == nil || errors.Is(err, engine.ErrNoImage):
		what := Event{Image: "base " + d.Name, Platform: p.String(), Text: "loading " + d.Ref}
		b.tell(what)
		if at, err = e.LoadSource(ctx, img, made.tag, b.Store.Scratch(), b.counter(what, img)); err != nil {
			return nil, err
		}
	default:
		return nil, err
	}
	made.id = at.ID
	return made, nil
}

// fetch finds an image by digest, here or on a mirror, and has its signature
// checked.
func (b *Builder) fetch(ctx context.Context, ref string, p *declare.Policy, on v1.Platform) (*source.Image, *lock.Signature, error) {
	at := b.Mirrors.At(ref)
	img, err := source.Registry(ctx, at, on, source.RegistryOptions{PlainHTTP: b.PlainHTTP})
	if err != nil {
		return nil, nil, err
	}
	if p == nil {
		return img, nil, nil
	}
	if b.Signatures == nil {
		err = fault.New(ref+" must be signed, and nothing here checks signatures", "")
	} else {
		var s *lock.Signature
		if s, err = b.Signatures.Verify(ctx, ref, at, p); err == nil {
			return img, s, nil
		}
	}
	return nil, nil, errors.Join(err, img.Close())
}

func sameLayers(have []string, img *source.Image) bool {
	if len(have) != len(img.Layers) {
		return false
	}
	for i, l := range img.Layers {
		if l.DiffID.String() != have[i] {
			return false
		}
	}
	return true
}
