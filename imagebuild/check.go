package imagebuild

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/runner/image/lock"
)

// Stale says why an image of the lock isn't what the declaration asks for.
type Stale struct{ Image, Platform, Why string }

// Check compares the lock with the declaration, for the images called names or
// all. It builds nothing and needs neither the engine nor any network: whether the
// images are there and intact is what `quavon images verify` says.
func (b *Builder) Check(ctx context.Context, names []string) ([]Stale, error) {
	_, l, err := readLock(b.Lock)
	if err != nil {
		return nil, err
	}
	if l == nil {
		l = &lock.File{}
	}
	images, err := b.named(names)
	if err != nil {
		return nil, err
	}
	var stale []Stale
	for _, i := range images {
		digest, err := b.sourceDigest(ctx, i)
		if err != nil {
			return nil, err
		}
		for _, p := range b.platforms(i) {
			var why string
			_, had := findIn(l, i.Name, digest, p.String())
			if had == nil {
				why = missing(l, i.Name, digest)
			} else if why, err = b.stale(ctx, i, p, had); err != nil {
				return nil, err
			}
			if why != "" {
				stale = append(stale, Stale{i.Name, p.String(), why})
			}
		}
	}
	for _, img := range l.Images {
		if len(names) == 0 && img.SourceDigest != "" && b.Declaration.Image(img.Name) == nil {
			stale = append(stale, Stale{Image: img.Name, Why: "the declaration has it no more"})
		}
	}
	return stale, nil
}

// stale says why a platform that was made of the right sources won't do.
func (b *Builder) stale(ctx context.Context, i *declare.Image, p v1.Platform, had *lock.Platform) (string, error) {
	if old, err := b.outdated(ctx, i, p, had.Config); err != nil || old {
		return "it was made of another executable", err
	}
	if same, err := sameArtefacts(i, had); err != nil || !same {
		return "other file systems are wanted of it", err
	}
	return "", nil
}

func missing(l *lock.File, name, digest string) string {
	for _, img := range l.Images {
		if img.Name != name {
			continue
		}
		if img.SourceDigest == digest {
			return "it isn't locked for this platform"
		}
		return fmt.Sprintf("it was made from other sources: %s instead of %s", short(img.SourceDigest), short(digest))
	}
	return "it isn't locked"
}

// short is enough of a digest for people.
func short(digest string) string {
	if digest == "" {
		return "none"
	}
	return digest[:min(len(digest), len("sha256:")+12)]
}
