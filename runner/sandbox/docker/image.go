package docker

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

// found is an image of the lock that the engine has.
type found struct {
	sandbox.Image
	// volumes are the places that the image wants volumes at.
	volumes []string
}

// FindImage implements sandbox.Detached. Only images of the lock are found. An
// engine names an image by its config with one kind of store and by its manifest or
// index with the other, so each of the lock's digests is tried, and what comes back
// must be one of them and have the lock's layers. The engine is asked each time: an image
// may be removed while a runner lives.
func (b *Backend) FindImage(ctx context.Context, digest string) (*sandbox.Image, error) {
	if _, err := b.checked(ctx); err != nil {
		return nil, err
	}
	f, err := b.ask(ctx, digest)
	if err != nil {
		return nil, &fault.Error{
			What: "can't use the image " + digest, Err: err, Hint: fault.Hint(err), Code: string(job.ReasonImageUnknown),
		}
	}
	img := f.Image
	return &img, nil
}

// find is an image that was found before, if it was.
func (b *Backend) find(ctx context.Context, digest string) (*found, error) {
	b.mu.Lock()
	f := b.images[digest]
	b.mu.Unlock()
	if f != nil {
		return f, nil
	}
	return b.ask(ctx, digest)
}

func (b *Backend) ask(ctx context.Context, digest string) (*found, error) {
	ref, p := b.pinned(digest)
	if p == nil {
		return nil, fault.New("the lock has no such image for this platform",
			"run `quavon build images`, or name another lock in "+lock.EnvFile)
	}
	f, err := b.lookUp(ctx, ref, p)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.images[digest] = f
	return f, nil
}

// pinned is the lock's image with a digest, for this platform.
func (b *Backend) pinned(digest string) (*lock.Image, *lock.Platform) {
	if b.Lock == nil || !object.ValidDigest(digest) {
		return nil, nil
	}
	for i := range b.Lock.Images {
		img := &b.Lock.Images[i]
		for j := range img.Platforms {
			p := &img.Platforms[j]
			if basePlatform(p.Platform) == here && slices.Contains([]string{p.Config, p.Manifest, img.Index}, digest) {
				return img, p
			}
		}
	}
	return nil, nil
}

// here is the platform of the engine, which is this host's.
const here = "linux/" + runtime.GOARCH

// basePlatform leaves the variant out.
func basePlatform(p string) string {
	parts := strings.SplitN(p, "/", 3)
	return strings.Join(parts[:min(len(parts), 2)], "/")
}

// lookUp tries the lock's digests of an image in turn.
func (b *Backend) lookUp(ctx context.Context, img *lock.Image, p *lock.Platform) (*found, error) {
	ctx, cancel := b.inTime(ctx)
	defer cancel()
	for _, ref := range references(img, p) {
		r, err := b.api.ImageInspect(ctx, ref)
		if errdefs.IsNotFound(err) || errdefs.IsInvalidArgument(err) {
			continue
		}
		if err != nil {
			return nil, fault.Wrap(err, "ask the engine for "+ref, "see the engine's log")
		}
		return accept(r, img, p)
	}
	return nil, fault.New(fmt.Sprintf("the engine doesn't have %s (%s)", img.Name, p.Config), provide(img, p))
}

// references are the names an engine may know an image by, all of them digests.
func references(img *lock.Image, p *lock.Platform) []string {
	refs := []string{p.Config}
	for _, d := range []string{p.Manifest, img.Index} {
		if d == "" {
			continue
		}
		refs = append(refs, d)
		if img.Source == lock.SourceRegistry {
			refs = append(refs, img.Ref+"@"+d)
		}
	}
	return refs
}

// provide says how an image gets into the engine.
func provide(img *lock.Image, p *lock.Platform) string {
	switch {
	case img.Source == lock.SourceRegistry:
		return "run `docker pull " + img.Ref + "@" + cmp.Or(img.Index, p.Manifest) + "`"
	case p.Manifest == "":
		return "run `docker load` with its archive; an engine with containerd's image store needs an image of a registry or an OCI layout"
	}
	return "run `docker load` with its archive"
}

// accept compares what the engine has with the lock.
func accept(r image.InspectResponse, img *lock.Image, p *lock.Platform) (*found, error) {
	ids := []string{p.Config, p.Manifest, img.Index}
	switch {
	case r.ID == "" || !slices.Contains(ids, r.ID):
		return nil, fault.New(fmt.Sprintf("the engine answers with another image: %s", r.ID), "see `docker image inspect "+p.Config+"`")
	case !slices.Equal(r.RootFS.Layers, p.DiffIDs):
		return nil, fault.New("the engine's image has other layers than the lock's",
			"remove it with `docker image rm "+r.ID+"` and pull it again")
	case r.Os+"/"+r.Architecture != basePlatform(p.Platform):
		return nil, fault.New("the engine's image is for "+r.Os+"/"+r.Architecture, "pull it for "+p.Platform)
	}
	f := &found{Image: sandbox.Image{ID: r.ID, Config: p.Config}}
	if c := r.Config; c != nil {
		f.User, f.Env, f.WorkDir, f.Entrypoint, f.Cmd = c.User, c.Env, c.WorkingDir, c.Entrypoint, c.Cmd
		for v := range c.Volumes {
			f.volumes = append(f.volumes, v)
		}
		slices.Sort(f.volumes)
	}
	return f, nil
}

// ReadImage implements sandbox.Detached: it reads from a container that is made of
// the image and never started, once for each image and set of files.
func (b *Backend) ReadImage(ctx context.Context, img *sandbox.Image, max int64, paths ...string) (*sandbox.ImageFiles, error) {
	key := img.ID + " " + strings.Join(paths, " ")
	b.mu.Lock()
	files := b.files[key]
	b.mu.Unlock()
	if files != nil {
		return files, nil
	}
	files = &sandbox.ImageFiles{Content: map[string][]byte{}}
	err := b.withHelper(ctx, img.ID, nil, func(ctx context.Context, id string) error {
		for _, path := range paths {
			data, err := b.readFile(ctx, id, path, max)
			if err != nil && !errdefs.IsNotFound(err) {
				return err
			}
			files.Content[path] = data
		}
		_, err := b.api.ContainerStatPath(ctx, id, object.CoveredDir)
		if errdefs.IsNotFound(err) {
			files.Made, err = []string{object.CoveredDir}, nil
		}
		return err
	})
	if err != nil {
		return nil, fault.Wrap(err, "read the image's users", "see the engine's log")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files[key] = files
	return files, nil
}
