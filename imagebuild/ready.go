package imagebuild

import (
	"context"
	"errors"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	recipe "github.com/quavon/quavon/imagebuild/base"
	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/runner/fault"
)

// Ready says, before anything is begun, that images must be built on a base which the engine
// hasn't, and that this host has no program to make it. It needs no network.
func (b *Builder) Ready(ctx context.Context) error {
	_, lacks := recipe.Program()
	if lacks == nil {
		return nil
	}
	files, err := readLocks(b.Lock)
	if err != nil {
		return err
	}
	for k := range b.Declaration.Images {
		i := &b.Declaration.Images[k]
		digest, err := b.sourceDigest(ctx, i)
		if err != nil {
			return err
		}
		for _, p := range b.platforms(i) {
			if files.have(i.Name, digest, p.String()) {
				continue
			}
			if name, err := b.unmade(ctx, i, p); err != nil || name != "" {
				return errors.Join(err, without(name, lacks))
			}
		}
	}
	return nil
}

func without(name string, lacks error) error {
	if name == "" {
		return nil
	}
	return fault.Wrap(lacks, "the base "+name+" must be made", fault.Hint(lacks))
}

// have says that some lock has an image of these sources.
func (f *lockFiles) have(name, digest, platform string) bool {
	for _, l := range f.all() {
		if _, had := findIn(l, name, digest, platform); had != nil {
			return true
		}
	}
	return false
}

// unmade is a base with a recipe that an image needs and the engine hasn't, "" for none.
func (b *Builder) unmade(ctx context.Context, i *declare.Image, p v1.Platform) (string, error) {
	for _, arg := range slices.Sorted(maps.Keys(i.Bases)) {
		d := b.Declaration.Base(i.Bases[arg])
		if d.Recipe == "" {
			continue
		}
		s, err := b.baseSource(ctx, d)
		if err != nil {
			return "", err
		}
		e, err := b.docker(ctx)
		if err != nil {
			return "", err
		}
		if _, err := e.Inspect(ctx, baseTag(d.Name, s.Recipe, p)); errors.Is(err, engine.ErrNoImage) {
			return d.Name, nil
		} else if err != nil {
			return "", err
		}
	}
	return "", nil
}
