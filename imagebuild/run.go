package imagebuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/pause"
)

// Result of a run.
type Result struct {
	// Before is the lock as it was, nil when there was none; After as it is now,
	// or, of a trial, as it would be.
	Before, After *lock.File
	// Made counts what was built or fetched, Changed says whether the lock was
	// written.
	Made    int
	Changed bool
	// Bases are the engine's names of the bases that images were made on, sorted.
	Bases []string
}

// Run makes the images called names, all without any, and writes the lock. What
// the lock has already, and what is there, isn't made again. A trial makes the
// images but leaves the lock as it is: the next run takes them over.
func (b *Builder) Run(ctx context.Context, names []string, trial bool) (*Result, error) {
	unlock, err := exclude(ctx, b.Lock)
	if err != nil {
		return nil, err
	}
	defer unlock()
	files, err := readLocks(b.Lock)
	if err != nil {
		return nil, err
	}
	images, err := b.named(names)
	if err != nil {
		return nil, err
	}
	if b.Platforms != nil && !slices.ContainsFunc(images, func(i *declare.Image) bool { return len(b.platforms(i)) > 0 }) {
		return nil, fault.New("nothing is declared for "+joined(b.Platforms), "name a platform that the declaration has with --platform")
	}
	r := &Result{Before: files.current}
	after := files.start(b)
	for _, i := range images {
		made, err := b.image(ctx, i, files)
		if err != nil {
			return nil, err
		}
		r.Made += made.count
		if made.image != nil {
			put(after, *made.image)
		}
	}
	if len(names) == 0 {
		b.prune(after)
	}
	if err := b.sum(ctx, after); err != nil {
		return nil, err
	}
	r.After = after
	for _, base := range b.bases {
		r.Bases = append(r.Bases, base.tag)
	}
	slices.Sort(r.Bases)
	if r.Changed, err = files.write(after, trial); err != nil || trial {
		return r, err
	}
	if r.Changed {
		b.tidy(ctx, files, after)
	}
	return r, b.rename(ctx, after, images)
}

// rename gives the images of this host their names in the store.
func (b *Builder) rename(ctx context.Context, l *lock.File, images []*declare.Image) error {
	for _, i := range images {
		_, p := l.Find(i.Name, source.Host())
		if p == nil {
			continue
		}
		r, err := b.Store.Find(p.Config)
		if err == nil {
			err = b.Store.Rename(ctx, r, i.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// exclude waits for other runs on the same lock. The directory is what is locked,
// so nothing is left of it.
func exclude(ctx context.Context, path string) (func(), error) {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, fault.Wrap(err, "can't write the image lock", "make the directory, or name another lock with --lock")
	}
	for {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = d.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(err, d.Close())
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
}

func joined(platforms []v1.Platform) string {
	var names []string
	for _, p := range platforms {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}

// named finds declared images.
func (b *Builder) named(names []string) ([]*declare.Image, error) {
	var out []*declare.Image
	for _, name := range names {
		i := b.Declaration.Image(name)
		if i == nil {
			return nil, fault.New("the declaration has no image "+name, "name one that it has, or none for all")
		}
		out = append(out, i)
	}
	if len(names) == 0 {
		for k := range b.Declaration.Images {
			out = append(out, &b.Declaration.Images[k])
		}
	}
	return out, nil
}

// outcome is what the lock is to have of an image; nil when nothing is made of it
// on this platform.
type outcome struct {
	image *lock.Image
	count int
}

// image makes what is missing of an image.
func (b *Builder) image(ctx context.Context, i *declare.Image, files *lockFiles) (outcome, error) {
	digest, err := b.sourceDigest(ctx, i)
	if err != nil {
		return outcome{}, err
	}
	out := outcome{}
	for _, p := range b.platforms(i) {
		old, platform, err := b.known(ctx, i, files, digest, p)
		if err != nil {
			return out, err
		}
		if platform != nil {
			again, err := b.reuse(ctx, i, p, old, platform)
			if err != nil {
				return out, err
			}
			if again != nil {
				out.add(i, digest, old, *again)
				continue
			}
		}
		m, err := b.make(ctx, i, p)
		if err != nil {
			return out, err
		}
		out.count++
		out.add(i, digest, &lock.Image{Source: m.source, Ref: m.ref, Index: m.index}, m.platform)
	}
	if out.image == nil {
		b.tell(Event{Image: i.Name, Text: fmt.Sprintf("skipped: it is declared for %v only", i.Platforms)})
		return out, nil
	}
	b.keepOthers(i, digest, files, out.image)
	return out, b.sign(ctx, i, out.image)
}

// known finds what was made of the same sources.
func (b *Builder) known(
	ctx context.Context, i *declare.Image, files *lockFiles, digest string, p v1.Platform,
) (*lock.Image, *lock.Platform, error) {
	for _, l := range files.all() {
		img, had := findIn(l, i.Name, digest, p.String())
		if had == nil {
			continue
		}
		if old, err := b.outdated(ctx, i, p, had.Config); err != nil || !old {
			return img, had, err
		}
	}
	return nil, nil, nil
}

func (o *outcome) add(i *declare.Image, digest string, of *lock.Image, p lock.Platform) {
	if o.image == nil {
		o.image = &lock.Image{Name: i.Name, Source: of.Source, Ref: of.Ref, Index: of.Index, SourceDigest: digest}
	}
	o.image.Platforms = append(o.image.Platforms, p)
}

// keepOthers keeps what another host has made of the same sources.
func (b *Builder) keepOthers(i *declare.Image, digest string, files *lockFiles, into *lock.Image) {
	for _, name := range i.Platforms {
		if platformOf(into, name) != nil {
			continue
		}
		if files.current == nil {
			continue
		}
		if _, p := findIn(files.current, i.Name, digest, name); p != nil {
			into.Platforms = append(into.Platforms, *p)
		}
	}
	sortPlatforms(into)
}

// sign signs what was built and isn't signed by the key yet.
func (b *Builder) sign(ctx context.Context, i *declare.Image, img *lock.Image) error {
	if b.Signatures == nil || b.Signatures.Signer() == "" || i.Ref != "" {
		return nil
	}
	for k := range img.Platforms {
		p := &img.Platforms[k]
		if p.Signature != nil && p.Signature.Key == b.Signatures.Signer() && b.hasSignature(p.Signature) {
			continue
		}
		config, err := v1.NewHash(p.Config)
		if err != nil {
			return err
		}
		if p.Signature, err = b.Signatures.Sign(ctx, i.Name, config); err != nil {
			return fault.Wrap(err, "can't sign the image "+i.Name, fault.Hint(err))
		}
		b.tell(Event{Image: i.Name, Platform: p.Platform, Text: "signed by " + p.Signature.Key})
	}
	return nil
}
