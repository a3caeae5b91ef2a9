package imagebuild

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
)

// Tag is the name that a built image has in the engine.
func Tag(name, config string) string {
	return "quavon/" + name + ":" + strings.TrimPrefix(config, "sha256:")[:12]
}

// made is one platform of an image, and what of it the lock has for all platforms.
type made struct {
	source   lock.Source
	ref      string
	index    string
	platform lock.Platform
}

// make makes one platform of an image, whatever is there.
func (b *Builder) make(ctx context.Context, i *declare.Image, p v1.Platform) (*made, error) {
	start := time.Now()
	var (
		m   *made
		err error
	)
	switch {
	case i.Ref != "":
		m, err = b.bring(ctx, i, p)
	case i.Executable != "":
		m, err = b.own(ctx, i, p)
	default:
		m, err = b.build(ctx, i, p)
	}
	if err != nil {
		return nil, fault.Wrap(err, fmt.Sprintf("can't make the image %s for %s", i.Name, p), fault.Hint(err))
	}
	took := time.Since(start).Round(100 * time.Millisecond)
	b.tell(Event{Image: i.Name, Platform: p.String(), Text: fmt.Sprintf("made %s in %v", m.platform.Config, took)})
	return m, nil
}

// bring takes an image that exists.
func (b *Builder) bring(ctx context.Context, i *declare.Image, p v1.Platform) (*made, error) {
	img, signature, err := b.fetch(ctx, i.Ref, i.Signature, p)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	repo, digest, _ := strings.Cut(i.Ref, "@")
	m := &made{source: lock.SourceRegistry, ref: repo}
	if img.Index.Hex != "" {
		m.index = digest
	}
	if m.platform, err = b.keep(ctx, i, p, img); err != nil {
		return nil, err
	}
	m.platform.Manifest, m.platform.Signature = img.Manifest.String(), signature
	for _, l := range img.Layers {
		m.platform.Layers = append(m.platform.Layers, lock.Layer{Digest: l.Digest.String(), Size: l.Size, MediaType: string(l.MediaType)})
	}
	return m, nil
}

// build has the engine build an image, and takes it from there.
func (b *Builder) build(ctx context.Context, i *declare.Image, p v1.Platform) (*made, error) {
	e, err := b.docker(ctx)
	if err != nil {
		return nil, err
	}
	bases, err := b.basesOf(ctx, e, i, p)
	if err != nil {
		return nil, err
	}
	id, err := b.run(ctx, e, i, p, bases)
	if err != nil {
		return nil, err
	}
	if err := unmoved(ctx, e, bases); err != nil {
		return nil, err
	}
	m, err := b.take(ctx, e, i, p, id)
	if err != nil {
		return nil, err
	}
	m.addBases(i, bases)
	return m, nil
}

// take names what the engine has, and puts it into the store.
func (b *Builder) take(ctx context.Context, e *engine.Engine, i *declare.Image, p v1.Platform, id string) (*made, error) {
	img, err := e.Save(ctx, id, p, b.Store.Scratch())
	if err != nil {
		return nil, err
	}
	defer img.Close()
	tag := Tag(i.Name, img.Config.String())
	if err := e.Tag(ctx, id, tag); err != nil {
		return nil, err
	}
	img.Origin = "docker-daemon:" + tag
	m := &made{source: lock.SourceDockerDaemon, ref: "quavon/" + i.Name}
	m.platform, err = b.keep(ctx, i, p, img)
	return m, err
}

func (b *Builder) basesOf(ctx context.Context, e *engine.Engine, i *declare.Image, p v1.Platform) (map[string]*base, error) {
	bases := map[string]*base{}
	for _, arg := range slices.Sorted(maps.Keys(i.Bases)) {
		made, err := b.base(ctx, e, b.Declaration.Base(i.Bases[arg]), p)
		if err != nil {
			return nil, err
		}
		bases[arg] = made
	}
	return bases, nil
}

// run builds; the build arguments of bases name them in the engine.
func (b *Builder) run(ctx context.Context, e *engine.Engine, i *declare.Image, p v1.Platform, bases map[string]*base) (string, error) {
	files, err := b.files(ctx, i)
	if err != nil {
		return "", err
	}
	defer files.Close()
	args := maps.Clone(i.Args)
	if args == nil {
		args = map[string]string{}
	}
	for arg, base := range bases {
		args[arg] = base.tag
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(files.Tar(ctx, w)) }()
	defer r.Close()
	b.tell(Event{Image: i.Name, Platform: p.String(), Text: "building"})
	return e.Build(ctx, &engine.Build{
		Context: r, Dockerfile: i.Dockerfile, Target: i.Target, Args: args, Platform: p.String(),
		Network: b.Network, Secrets: b.Secrets, NoCache: b.NoCache,
		Progress: func(s engine.Step) {
			e := Event{Image: i.Name, Platform: p.String(), Text: s.Name, Log: s.Log, Going: !s.Done}
			if s.Cached {
				e.Text += " (cached)"
			}
			b.tell(e)
		},
	})
}

// unmoved makes sure that nobody gave a base's name to another image meanwhile.
func unmoved(ctx context.Context, e *engine.Engine, bases map[string]*base) error {
	for _, base := range bases {
		at, err := e.Inspect(ctx, base.tag)
		if err != nil {
			return err
		}
		if at.ID != base.id {
			return fault.New("the name "+base.tag+" was moved to another image during the build",
				"build again, and find out who uses this Docker Engine")
		}
	}
	return nil
}

// addBases notes what an image was built on, in the order of the build arguments.
func (m *made) addBases(i *declare.Image, bases map[string]*base) {
	for _, arg := range slices.Sorted(maps.Keys(i.Bases)) {
		base := bases[arg]
		if slices.Contains(m.platform.Base, base.digest) {
			continue
		}
		m.platform.Base = append(m.platform.Base, base.digest)
		if base.signature != nil {
			m.platform.BaseSignatures = append(m.platform.BaseSignatures, lock.BaseSignature{Base: base.digest, Signature: *base.signature})
		}
	}
	slices.SortFunc(m.platform.BaseSignatures, func(a, b lock.BaseSignature) int { return strings.Compare(a.Base, b.Base) })
}

// keep puts an image into the store and writes the files that lie beside the lock.
func (b *Builder) keep(ctx context.Context, i *declare.Image, p v1.Platform, img *source.Image) (out lock.Platform, err error) {
	what := Event{Image: i.Name, Platform: p.String(), Text: "importing"}
	last := new(atomic.Int64)
	r, _, err := b.Store.Import(ctx, img, image.ImportOptions{Progress: func(done, total int64) {
		if n := last.Load(); done-n > 1<<20 && last.CompareAndSwap(n, done) {
			e := what
			e.Done, e.Total, e.Going = done, total, true
			b.tell(e)
		}
	}})
	if err != nil {
		return out, err
	}
	out = lock.Platform{Platform: p.String(), Config: r.Config.String(), Size: r.Root.Size}
	for _, id := range r.DiffIDs {
		out.DiffIDs = append(out.DiffIDs, id.String())
	}
	if out.SBOM, err = b.writeSBOM(ctx, i.Name, p, r); err != nil {
		return out, err
	}
	out.Artefacts, err = b.artefacts(ctx, i, p, img)
	return out, err
}

// counter tells how much of an image was read.
func (b *Builder) counter(what Event, img *source.Image) func(n int) {
	done := new(atomic.Int64)
	for _, l := range img.Layers {
		what.Total += max(0, l.Size)
	}
	return func(n int) {
		e := what
		before := done.Load()
		e.Done, e.Going = done.Add(int64(n)), true
		if before>>20 != e.Done>>20 {
			b.tell(e)
		}
	}
}
